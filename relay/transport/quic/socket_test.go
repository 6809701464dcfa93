package quic

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

func newUDP(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// sysctl reads a limit of net.core; -1 where there is none.
func sysctl(name string) int {
	b, err := os.ReadFile("/proc/sys/net/core/" + name)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

func TestTheListenersBuffersAreThoseAskedForOrTheNodesLimit(t *testing.T) {
	receiveLimit, sendLimit := sysctl("rmem_max"), sysctl("wmem_max")
	if receiveLimit < 0 || sendLimit < 0 {
		t.Skip("no net.core limits to be seen")
	}
	for _, size := range []int{1 << 20, 32 << 20} { // below and above what quic-go asks for
		s := newServer(t, func(c *Config) { c.ReceiveBuffer, c.SendBuffer = size, size })
		got, err := s.Socket()
		if err != nil {
			t.Fatal(err)
		}
		if got.RequestedReceive != size || got.RequestedSend != size {
			t.Errorf("requested is %+v, want %d each", got, size)
		}
		if want := min(size, receiveLimit); got.GrantedReceive != size && got.GrantedReceive != want {
			t.Errorf("granted receive is %d, want %d by force or %d by the limit", got.GrantedReceive, size, want)
		}
		if want := min(size, sendLimit); got.GrantedSend != size && got.GrantedSend != want {
			t.Errorf("granted send is %d, want %d by force or %d by the limit", got.GrantedSend, size, want)
		}
	}
}

func TestADropIsCountedForEveryDatagramThatDidNotFit(t *testing.T) {
	conn := newUDP(t)
	s, err := newSocket(conn, 16<<10, 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := net.Dial("udp", conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	const sent = 1000
	for range sent { // loopback delivers before Write returns
		if _, err := from.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := s.stats()
	if err != nil {
		t.Fatal(err)
	}
	if stats.Drops == 0 || stats.Drops >= sent {
		t.Fatalf("%d of %d datagrams dropped, want some and not all", stats.Drops, sent)
	}
	for i := range sent - stats.Drops {
		if _, err := conn.Read(make([]byte, 1500)); err != nil {
			t.Fatalf("datagram %d: %v", i, err)
		}
	}
	if again, err := s.stats(); err != nil || again.Drops != stats.Drops {
		t.Errorf("after the rest was read the counter is %d (%v), want %d", again.Drops, err, stats.Drops)
	}
}
