package quic

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// send sends datagrams to the server from a socket that it does not know.
func (s *server) send(t *testing.T, datagrams ...[]byte) {
	t.Helper()
	conn, err := net.Dial("udp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, d := range datagrams {
		if _, err := conn.Write(d); err != nil {
			t.Fatal(err)
		}
	}
}

// wantMisrouted waits until the listener has counted so many.
func wantMisrouted(t *testing.T, l *Listener, want uint64) {
	t.Helper()
	deadline := time.After(time.Minute)
	for l.Misrouted() < want {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d packets are counted, want %d", l.Misrouted(), want)
		}
	}
	if got := l.Misrouted(); got != want {
		t.Fatalf("%d packets are counted, want %d", got, want)
	}
}

func TestPacketsOfNoConnectionAreCountedAndOthersAreNot(t *testing.T) {
	s := newServer(t, nil)
	client, accepted := s.connect(t)
	echo(t, client, accepted)
	wantMisrouted(t, s.Listener, 0)

	short := append([]byte{0x40}, bytes.Repeat([]byte{0xab}, 60)...) // 1-RTT, an id that nobody has
	handshake := append([]byte{0xe0, 0, 0, 0, 1, 4, 9, 9, 9, 9, 4, 8, 8, 8, 8, 20}, make([]byte, 40)...)
	garbage := []byte{0x00, 1, 2, 3}                                             // no QUIC
	strange := append([]byte{0xc0, 0xfa, 0xce, 0, 1, 0, 0}, make([]byte, 20)...) // an unknown version, too short to answer
	s.send(t, garbage, strange, short, handshake, short)
	wantMisrouted(t, s.Listener, 3)

	echo(t, client, accepted)
	wantMisrouted(t, s.Listener, 3)
}

func TestAConnectionFromASocketWithBuffersEndsWithItsCode(t *testing.T) {
	s := newServer(t, nil)
	s.dial.ReceiveBuffer, s.dial.SendBuffer = 300<<10, 300<<10
	client, accepted := s.connect(t)
	echo(t, client, accepted)
	client.Close(7, "enough")
	select {
	case <-accepted.Done():
	case <-time.After(time.Minute):
		t.Fatal("the server does not see the end")
	}
	want := &transport.CloseError{Code: 7, Reason: "enough", Remote: true}
	if got, ok := errors.AsType[*transport.CloseError](accepted.Err()); !ok || *got != *want {
		t.Errorf("the server sees %v, want %v", accepted.Err(), want)
	}
}
