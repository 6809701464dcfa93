//go:build interop

package interop

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// Codes that the relay answers with, from the moq-lite registry.
const (
	protocolViolation = 0x3 // session

	internalError = 0x0 // streams
	cancelled     = 0x1
	unroutable    = 0x36
	frameTooLarge = 0x38
)

// hostile is a client that says what it likes.
type hostile struct {
	t *testing.T
	transport.Conn
}

// dialHostile opens a session on which nothing was said yet.
func dialHostile(t *testing.T, r *relay, kind transport.Kind, version lite.Version) *hostile {
	t.Helper()
	protocols := []string{version.String()}
	cfg := quic.DialConfig{Protocols: protocols, TLS: &tls.Config{InsecureSkipVerify: true}}
	var conn transport.Conn
	var err error
	switch kind {
	case transport.QUIC:
		conn, err = quic.Dial(t.Context(), r.clients, cfg)
	case transport.WebTransport:
		conn, err = quic.DialWebTransport(t.Context(), "https://"+r.clients, cfg)
	default:
		conn, err = qmux.Dial(t.Context(), "ws://"+r.clients, &qmux.Config{Protocols: protocols})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(0, "") })
	return &hostile{t, conn}
}

// unhex reads hex digits with spaces.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send opens a unidirectional stream with these bytes and leaves it open.
func (h *hostile) send(b []byte) transport.SendStream {
	h.t.Helper()
	stream, err := h.OpenSendStream(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(stream, b)
	return stream
}

// ask opens a bidirectional stream with these bytes and leaves it open.
func (h *hostile) ask(b []byte) transport.Stream {
	h.t.Helper()
	stream, err := h.OpenStream(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.write(stream, b)
	return stream
}

// write fails only where the relay has ended the stream already.
func (h *hostile) write(stream transport.SendStream, b []byte) {
	h.t.Helper()
	_, err := stream.Write(b)
	_, ended := errors.AsType[*transport.StreamError](err)
	_, closed := errors.AsType[*transport.CloseError](err)
	if err != nil && !ended && !closed {
		h.t.Fatal(err)
	}
}

// hello says SETUP.
func (h *hostile) hello() { h.send(unhex(h.t, "01 01 00")) }

// accept returns the next stream of a type that the relay opens.
func (h *hostile) accept(typ lite.BidiType) (transport.Stream, *wire.StreamReader) {
	h.t.Helper()
	for {
		stream, err := h.AcceptStream(h.t.Context())
		if err != nil {
			h.t.Fatalf("no %v stream came: %v", typ, err)
		}
		in := wire.NewStreamReader(stream, 1<<16)
		if got, err := in.Varint("type"); err != nil {
			h.t.Fatal(err)
		} else if lite.BidiType(got) == typ {
			return stream, in
		}
	}
}

// within fails the test when what is waited for does not come.
func (h *hostile) within(what string, done <-chan struct{}) {
	h.t.Helper()
	select {
	case <-done:
	case <-time.After(failsafe):
		h.t.Fatalf("%s did not come within %v", what, failsafe)
	}
}

// wantClosed waits for the relay's end of the session.
func (h *hostile) wantClosed(code uint64) {
	h.t.Helper()
	h.within("the end of the session", h.Done())
	got, ok := errors.AsType[*transport.CloseError](h.Err())
	if !ok || !got.Remote || got.Transport || got.Code != code {
		h.t.Fatalf("the session has ended with %v, want code %#x from the relay", h.Err(), code)
	}
}

// wantReset reads until the relay resets its half of a stream.
func (h *hostile) wantReset(stream transport.ReceiveStream, code uint64) {
	h.t.Helper()
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		for b := make([]byte, 1024); err == nil; {
			_, err = stream.Read(b)
		}
	}()
	h.within("the reset of the stream", read)
	if got, ok := errors.AsType[*transport.StreamError](err); !ok || !got.Remote || got.Code != code {
		h.t.Fatalf("the stream has ended with %v, want a reset with %#x", err, code)
	}
}

// wantStopped waits until the relay stops a stream of ours.
func (h *hostile) wantStopped(stream transport.SendStream, code uint64) {
	h.t.Helper()
	h.within("STOP_SENDING", stream.Stopped())
	_, err := stream.Write([]byte{0})
	if got, ok := errors.AsType[*transport.StreamError](err); !ok || !got.Remote || got.Code != code {
		h.t.Fatalf("writing fails with %v, want STOP_SENDING with %#x", err, code)
	}
}

// wantAlive asks for announcements: the session answers with ANNOUNCE_OK.
func (h *hostile) wantAlive() {
	h.t.Helper()
	stream := h.ask(unhex(h.t, "01 01 00"))
	answer := make(chan error, 1)
	go func() {
		_, err := stream.Read(make([]byte, 1))
		answer <- err
	}()
	select {
	case err := <-answer:
		if err != nil {
			h.t.Fatalf("the session does not answer any more: %v", err)
		}
	case <-time.After(failsafe):
		h.t.Fatalf("no ANNOUNCE_OK within %v", failsafe)
	}
}

// subscribe is SUBSCRIBE with its stream type, in lite-06.
func subscribe(t *testing.T, id uint64, broadcast, track string) []byte {
	t.Helper()
	msg := lite.Subscribe{ID: id, Broadcast: broadcast, Track: track, Preferences: lite.Preferences{MaxAge: 30_000}}
	b, err := msg.Append([]byte{byte(lite.BidiSubscribe)}, lite.Lite06)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bystander is a publisher and a viewer of other people.
const bystander = "bystander"

// A crime is one thing that a client must not do; say is what it does after SETUP.
type crime struct {
	name string
	do   func(h *hostile)
}

// ending crimes cost the session, with PROTOCOL_VIOLATION.
var ending = []crime{
	{"a second Setup stream", func(h *hostile) { h.send(unhex(h.t, "01 01 00")) }},
	{"a GOAWAY with a URI from a client", func(h *hostile) { h.ask(unhex(h.t, "05 04 03 613a62")) }},
	{"two GOAWAYs", func(h *hostile) { h.ask(unhex(h.t, "05 01 00")); h.ask(unhex(h.t, "05 01 00")) }},
	{"an ANNOUNCE_REQUEST of 2^62-1 bytes", func(h *hostile) { h.ask(unhex(h.t, "01 ffffffffffffffff")) }},
	{"a SUBSCRIBE of 2^62-1 bytes", func(h *hostile) { h.ask(unhex(h.t, "02 ffffffffffffffff 00")) }},
	{"a FETCH of 2^62-1 bytes", func(h *hostile) { h.ask(unhex(h.t, "03 ffffffffffffffff 00")) }},
	{"a GOAWAY of 1 GiB", func(h *hostile) { h.ask(unhex(h.t, "05 c000000040000000 00")) }},
	{"a TRACK of 2^62-1 bytes", func(h *hostile) { h.ask(unhex(h.t, "06 ffffffffffffffff 00")) }},
	{"an end of what was never announced", func(h *hostile) { h.announce("01 01 07") }},
	{"a hop twice in one chain", func(h *hostile) { h.announce("00 07 01 61 02 05 05 00 00") }},
	{"the same path twice", func(h *hostile) { h.announce("00 05 01 61 00 00 00  00 05 01 61 00 00 00") }},
	{"an announcement of 2^62-1 bytes", func(h *hostile) { h.announce("00 ffffffffffffffff") }},
	{"a subscribe id twice", func(h *hostile) {
		h.ask(subscribe(h.t, 1, bystander, "data"))
		h.ask(subscribe(h.t, 1, bystander, "data"))
	}},
}

// announce answers the relay's request for announcements: ANNOUNCE_OK and then this.
func (h *hostile) announce(text string) {
	h.t.Helper()
	stream, _ := h.accept(lite.BidiAnnounce)
	h.write(stream, unhex(h.t, "02 00 00"+text))
}

// petty crimes cost their stream alone.
var petty = []crime{
	{"a bidirectional stream of an unknown type", func(h *hostile) { h.wantReset(h.ask(unhex(h.t, "3f 00")), internalError) }},
	{"a unidirectional stream of an unknown type", func(h *hostile) { h.wantStopped(h.send(unhex(h.t, "3f 00")), internalError) }},
	{"a SUBSCRIBE that is too short", func(h *hostile) { h.wantReset(h.ask(unhex(h.t, "02 03 01 05 61")), internalError) }},
	{"a SUBSCRIBE with bytes left over", func(h *hostile) {
		h.wantReset(h.ask(unhex(h.t, "02 0c 01 01 61 01 62 00 00 00 00 00 00 ff")), internalError)
	}},
	{"a last frame without a last group", func(h *hostile) {
		h.wantReset(h.ask(unhex(h.t, "02 0b 01 01 61 01 62 00 00 00 00 00 03")), internalError)
	}},
	{"a path that is no UTF-8", func(h *hostile) {
		h.wantReset(h.ask(unhex(h.t, "02 0b 01 01 ff 01 62 00 00 00 00 00 00")), internalError)
	}},
	{"a path of 33 segments", func(h *hostile) {
		path := strings.Repeat("61 2f", 32) + "61"
		h.wantReset(h.ask(unhex(h.t, "02 404b 01 4041"+path+"01 62 00 00 00 00 00 00")), internalError)
	}},
	{"a path that nobody has", func(h *hostile) { h.wantReset(h.ask(subscribe(h.t, 1, "nobody", "data")), unroutable) }},
	{"a FETCH of a path that nobody has", func(h *hostile) { h.wantReset(h.ask(unhex(h.t, "03 08 01 61 01 62 00 00 00 00")), unroutable) }},
	{"a FETCH that ends before its start", func(h *hostile) { h.wantReset(h.ask(unhex(h.t, "03 08 01 61 01 62 00 00 02 02")), internalError) }},
	{"a group that nobody asked for", func(h *hostile) { h.wantStopped(h.send(unhex(h.t, "00 03 07 00 00")), cancelled) }},
	{"a PROBE that is too short", func(h *hostile) { h.wantReset(h.ask(unhex(h.t, "04 01 00")), internalError) }},
	{"a datagram that makes no sense", func(h *hostile) {
		if h.MaxDatagram() > 0 {
			if err := h.SendDatagram([]byte{0x40}); err != nil {
				h.t.Fatal(err)
			}
		}
	}},
}

var hostileTransports = []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket}

func TestMalformedStreamsCostTheirOwnSessionOrStreamAndNobodyElse(t *testing.T) {
	r := startRelay(t)
	b := startBystanders(t, r)
	commit := func() {
		for _, kind := range hostileTransports {
			for _, c := range ending {
				t.Run(fmt.Sprint(kind, ": ", c.name), func(t *testing.T) {
					h := dialHostile(t, r, kind, lite.Lite06)
					h.hello()
					c.do(h)
					h.wantClosed(protocolViolation)
				})
			}
			h := dialHostile(t, r, kind, lite.Lite06)
			h.hello()
			for _, c := range petty {
				t.Run(fmt.Sprint(kind, ": ", c.name), func(t *testing.T) {
					h := &hostile{t, h.Conn}
					c.do(h)
					h.wantAlive()
				})
			}
		}
		setupBombs(t, r)
		frameBombs(t, r)
	}
	commit() // what a process needs the first time is no sign of a bomb
	before := r.memory()
	commit()
	r.wantMemory(before)
	b.wantUnharmed()
}

// setupBombs says SETUP wrongly, as the first thing of a session.
func setupBombs(t *testing.T, r *relay) {
	for _, kind := range hostileTransports {
		for name, text := range map[string]string{
			"SETUP of 2^62-1 bytes":           "01 ffffffffffffffff",
			"SETUP with a parameter twice":    "01 07 02 05 01 01 05 01 01",
			"SETUP with 2^62-1 parameters":    "01 08 ffffffffffffffff",
			"SETUP, a path of 2^62-1 bytes":   "01 0a 01 02 ffffffffffffffff",
			"SETUP that is shorter than said": "01 02 01 05",
		} {
			t.Run(fmt.Sprint(kind, ": ", name), func(t *testing.T) {
				h := dialHostile(t, r, kind, lite.Lite06)
				stream := h.send(unhex(t, text))
				switch {
				case strings.HasSuffix(name, "twice"), strings.HasSuffix(name, "SETUP of 2^62-1 bytes"):
					h.wantClosed(protocolViolation)
				default:
					h.wantStopped(stream, internalError)
				}
			})
		}
	}
}

// frameBombs publishes groups whose frames claim far more than comes.
func frameBombs(t *testing.T, r *relay) {
	for _, kind := range hostileTransports {
		t.Run(fmt.Sprint(kind, ": frames that claim 2^62-1 bytes, and 32 MiB of which 100 come"), func(t *testing.T) {
			publisher := dialHostile(t, r, kind, lite.Lite06)
			publisher.hello()
			publisher.announce("00 08 04 626f6d62 00 00 00") // "bomb"
			viewer := dialHostile(t, r, kind, lite.Lite06)
			viewer.hello()
			viewer.awaitAnnounced("bomb")
			viewer.ask(subscribe(t, 1, "bomb", "data"))

			info, _ := publisher.accept(lite.BidiTrack)
			publisher.write(info, unhex(t, "04 00 4e20 01")) // 20 s
			_ = info.Close()
			publisher.accept(lite.BidiSubscribe)
			for group := range 40 {
				b := append(unhex(t, "00 03 00"), byte(group), 0)
				if group%2 == 0 {
					stream := publisher.send(append(b, unhex(t, "00 ffffffffffffffff")...))
					publisher.wantStopped(stream, frameTooLarge)
					continue
				}
				publisher.send(append(append(b, unhex(t, "00 82000000")...), make([]byte, 100)...))
			}
			publisher.wantAlive()
		})
	}
}

// awaitAnnounced reads announcements until one has the path.
func (h *hostile) awaitAnnounced(path string) {
	h.t.Helper()
	stream := h.ask(unhex(h.t, "01 01 00"))
	found := make(chan struct{})
	go func() {
		var all []byte
		for b := make([]byte, 1024); !strings.Contains(string(all), path); {
			n, err := stream.Read(b)
			if err != nil {
				return
			}
			all = append(all, b[:n]...)
		}
		close(found)
	}()
	h.within("the announcement of "+path, found)
}

// frames02 are messages of qmux-02 behind its parameters, and the code that the
// transport's close frame must have.
var frames02 = []struct {
	name, message string
	code          byte
}{
	{"a second set of parameters", parameters02, 0x0a},
	{"an unknown frame type", "3e 00", 0x07},
	{"a stream of 2^62-1 bytes", "0a 02 ffffffffffffffff 00", 0x07},
	{"stream data at offset 2^61, which leaves a gap", "0e 02 e000000000000000 01 aa", 0x0a},
	{"stream data beyond 2^62-1", "0e 02 ffffffffffffffff 01 aa", 0x07},
	{"a gap in a stream", "0e 02 05 01 7a", 0x0a},
	{"the relay's own stream", "0e 03 00 01 aa", 0x05},
	{"a stream far over the limit", "0e c000000000100002 00 01 aa", 0x04},
	{"a reset beyond the window", "04 02 00 ffffffffffffffff", 0x03},
	{"a datagram that was never allowed", "31 01 aa", 0x0a},
}

const parameters02 = "ff5153300d0a0d0a37010480007530040480100000050480040000060480040000070480040000080240640902406420027ffec571c59429cd0845027ffe1d00"

func TestMalformedFramesOfQMuxEndTheirConnectionWithTheTransportsCode(t *testing.T) {
	r := startRelay(t)
	b := startBystanders(t, r)
	for _, f := range frames02 {
		t.Run(f.name, func(t *testing.T) {
			socket, _, err := websocket.Dial(t.Context(), "ws://"+r.clients, &websocket.DialOptions{Subprotocols: []string{"qmux-02.moq-lite-06"}})
			if err != nil {
				t.Fatal(err)
			}
			defer socket.CloseNow()
			for _, message := range []string{parameters02, f.message} {
				if err := socket.Write(t.Context(), websocket.MessageBinary, unhex(t, message)); err != nil {
					t.Fatal(err)
				}
			}
			var last []byte
			for {
				_, message, err := socket.Read(t.Context())
				if err != nil {
					break
				}
				last = message
			}
			if len(last) < 2 || last[0] != 0x1c || last[1] != f.code {
				t.Errorf("the last record is %x, want CONNECTION_CLOSE (1c) with code %02x", last, f.code)
			}
		})
	}
	b.wantUnharmed()
}

func TestRubbishOnTheClientPortHarmsNobody(t *testing.T) {
	r := startRelay(t)
	b := startBystanders(t, r)
	udp, err := net.Dial("udp", r.clients)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	rubbish := make([]byte, 1200)
	for i := range 2000 {
		for j := range rubbish {
			rubbish[j] = byte(i*7 + j*j)
		}
		_, _ = udp.Write(rubbish[:1+i%1200])
	}
	for _, text := range []string{"\x16\x03\x01\xff\xff", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 1<<20), "\x00\x01\x02\r\n\r\n"} {
		tcp, err := net.Dial("tcp", r.clients)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = tcp.Write([]byte(text))
		_ = tcp.Close()
	}
	b.wantUnharmed()
}
