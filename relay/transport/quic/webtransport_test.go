package quic

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"github.com/quic-go/webtransport-go"

	"github.com/moqrelay/operator/relay/transport"
)

// libraryServer is a server of the public library, which echoes streams and
// datagrams, and closes the session with code 7 after its first unidirectional one.
func libraryServer(t *testing.T) (address string) {
	t.Helper()
	cert, _ := newCertificate(t)
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Address: "x", Protocols: []string{"moq-lite-06"}, NoQUIC: true}.withDefaults()
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	web := &webtransport.Server{
		ApplicationProtocols: cfg.Protocols,
		CheckOrigin:          func(*http.Request) bool { return true },
	}
	web.H3 = &http3.Server{TLSConfig: cfg.tlsConfig(), QUICConfig: cfg.quicConfig(), Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if session, err := web.Upgrade(w, r); err == nil {
				go libraryEcho(session)
			}
		})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(packets)
	}()
	t.Cleanup(func() {
		_ = web.Close()
		_ = packets.Close()
		<-served
	})
	return packets.LocalAddr().String()
}

func libraryEcho(session *webtransport.Session) {
	ctx := session.Context()
	str, err := session.AcceptStream(ctx)
	if err != nil {
		return
	}
	_, _ = io.Copy(str, str)
	_ = str.Close()
	if b, err := session.ReceiveDatagram(ctx); err == nil {
		_ = session.SendDatagram(b)
	}
	uni, err := session.AcceptUniStream(ctx)
	if err != nil {
		return
	}
	_, err = uni.Read(make([]byte, 100))
	for err == nil {
		_, err = uni.Read(make([]byte, 100))
	}
	if e, ok := errors.AsType[*webtransport.StreamError](err); ok {
		_ = session.CloseWithError(7, "reset with "+string(rune('a'+e.ErrorCode)))
	}
}

func TestOurClientAgreesWithTheLibrarysServer(t *testing.T) {
	cfg := DialConfig{Protocols: []string{"moq-lite-06"}}
	cfg.TLS = &tls.Config{InsecureSkipVerify: true} // another server's certificate
	c, err := DialWebTransport(t.Context(), "https://"+libraryServer(t)+"/", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(0, "")
	s, err := c.OpenStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("echo"), 5000)
	go func() {
		_, _ = s.Write(want)
		_ = s.Close()
	}()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v, want the %d sent", len(got), err, len(want))
	}
	if err := c.SendDatagram([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReceiveDatagram(t.Context()); err != nil || string(got) != "ping" {
		t.Errorf("datagram: %q, %v", got, err)
	}
	uni, err := c.OpenSendStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := uni.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	uni.Reset(2)
	<-c.Done()
	if e, ok := errors.AsType[*transport.CloseError](c.Err()); !ok || *e != (transport.CloseError{Code: 7, Reason: "reset with c", Remote: true}) {
		t.Errorf("the session ended with %v, want code 7 and the reset's code", c.Err())
	}
}

// TestAResetRightAfterAWriteIsSeen at both ends of ours: the library loses it.
func TestAResetRightAfterAWriteIsSeen(t *testing.T) {
	client, server := newServer(t, nil).connectWeb(t, "/")
	for i := range 200 {
		s, err := client.OpenStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if _, err := s.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
		}
		s.Reset(uint64(i))
		theirs, err := server.AcceptStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(theirs)
		if e, ok := errors.AsType[*transport.StreamError](err); !ok || e.Code != uint64(i) || !e.Remote {
			t.Fatalf("stream %d ended with %v, want its reset", i, err)
		}
		theirs.Reset(0)
		s.Stop(0)
	}
}

// A close capsule ends the wait for a datagram, whether the end of the stream comes with it or not.
func TestACloseWithoutTheStreamsEndEndsTheWaitForADatagram(t *testing.T) {
	s := newServer(t, nil)
	conn := newWebClient(t, s)
	tr := &http3.Transport{EnableDatagrams: true, AdditionalSettings: clientSettings()}
	client := tr.NewRawClientConn(conn)
	mux := newWebMux(conn, reorderingTime)
	go mux.serve(client.HandleBidirectionalStream, client.HandleUnidirectionalStream)
	u, err := url.Parse(s.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := s.dial.request(t.Context(), client, u)
	if err != nil {
		t.Fatal(err)
	}
	str, err := client.OpenRequestStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := str.SendRequestHeader(request); err != nil {
		t.Fatal(err)
	}
	server := s.accept(t)
	if _, err := str.Write(capsule(0x2843, 0, 0, 0, 7)); err != nil { // and no FIN
		t.Fatal(err)
	}
	<-server.Done()
	_, err = server.ReceiveDatagram(t.Context())
	if e, ok := errors.AsType[*transport.CloseError](err); !ok || e.Code != 7 || !e.Remote {
		t.Errorf("ReceiveDatagram: %v, want the peer's close with code 7", err)
	}
}

func TestStreamsWithoutAHeadGiveTheirPlaceBack(t *testing.T) {
	s := newServer(t, func(c *Config) { c.MaxStreams = 8 })
	conn := newWebClient(t, s)
	for i := range 40 { // five times the limit
		bidi, err := conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		uni, err := conn.OpenUniStreamSync(t.Context())
		if err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		if i%2 == 0 {
			_, _ = bidi.Write([]byte{0x40})
			_, _ = uni.Write([]byte{0x40, 0x54})
		}
		bidi.CancelWrite(1)
		uni.CancelWrite(1)
		_, err = bidi.Read(make([]byte, 1))
		if e, ok := errors.AsType[*quic.StreamError](err); !ok || !e.Remote {
			t.Fatalf("stream %d: the other half ended with %v, want a reset", i, err)
		}
	}
}

// TestAPeerThatEndsStreamsButNotTheSessionIsWaitedForABoundedTime: what the peer says on a
// stream is that there will be no session, so a Read waits for its end, for a second.
func TestAPeerThatEndsStreamsButNotTheSessionIsWaitedForABoundedTime(t *testing.T) {
	s := newServer(t, nil)
	conn := newWebClient(t, s)
	client, err := (&webtransport.Transport{ApplicationProtocols: s.dial.Protocols}).NewClientConn(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Dial(t.Context(), s.url("/"), nil); err != nil {
		t.Fatal(err)
	}
	server := s.accept(t)
	str, err := conn.OpenUniStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := str.Write([]byte{0x40, 0x54, 0, 'x'}); err != nil {
		t.Fatal(err)
	}
	theirs, err := server.AcceptReceiveStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	str.CancelWrite(sessionGone)
	if _, err := io.ReadAll(theirs); err == nil {
		t.Error("the stream ended cleanly")
	}
	<-server.Done()
	if _, ok := errors.AsType[*transport.CloseError](server.Err()); ok || server.Err() == nil {
		t.Errorf("the session ended with %v, want an error that is no close", server.Err())
	}
}

func TestCodesTravelAsTheDraftHasThem(t *testing.T) {
	c := &webConn{}
	for n, h := range map[uint64]quic.StreamErrorCode{
		0: 0x52e4a40fa8db, 29: 0x52e4a40fa8f8, 30: 0x52e4a40fa8fa, 77: 0x52e4a40fa92a,
		4321: 0x52e4a40fba4c, 4294967295: 0x52e5ac983162,
	} {
		if got := c.wireCode(n); got != h {
			t.Errorf("code %d travels as %#x, want %#x", n, got, h)
		}
		if got := fromWireCode(h); got != n {
			t.Errorf("%#x is code %d, want %d", h, got, n)
		}
	}
	for _, h := range []quic.StreamErrorCode{0, 0x52e4a40fa8da, 0x52e4a40fa8f9, 0x52e5ac983163} {
		if got := fromWireCode(h); got != 0 {
			t.Errorf("%#x, which is none of WebTransport's, is code %d, want 0", h, got)
		}
	}
	if c.wireCode(1<<40) != c.wireCode(1<<32-1) {
		t.Error("a code of more than 32 bits is not sent as the largest")
	}
}

// bytesStream is a CONNECT stream whose bytes are given.
type bytesStream struct {
	connectStream
	*bytes.Reader
}

func (b bytesStream) Read(p []byte) (int, error) { return b.Reader.Read(p) }

func capsule(typ uint64, body ...byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, typ), uint64(len(body))), body...)
}

var capsules = []struct {
	name  string
	bytes []byte
	want  error
}{
	{"an end without a capsule", nil, &transport.CloseError{Remote: true}},
	{"a close", capsule(0x2843, 0, 0, 0, 99, 'b', 'y', 'e'), &transport.CloseError{Code: 99, Reason: "bye", Remote: true}},
	{"a close after others", append(capsule(0x78ae), append(capsule(0x190b4d3d, 5), capsule(0x2843, 0, 0, 1, 0)...)...), &transport.CloseError{Code: 256, Remote: true}},
	{"a close that is too short", capsule(0x2843, 0, 0, 1), nil},
	{"half a capsule", capsule(0x2843, 0, 0, 0, 1)[:4], nil},
}

func TestTheSessionEndsAsItsCapsulesSay(t *testing.T) {
	for _, row := range capsules {
		c := &webConn{connect: bytesStream{Reader: bytes.NewReader(row.bytes)}}
		err := c.readCapsules()
		got, ok := errors.AsType[*transport.CloseError](err)
		if want, clean := row.want.(*transport.CloseError); clean != ok || clean && *got != *want {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
}

func FuzzReadCapsules(f *testing.F) {
	for _, row := range capsules {
		f.Add(row.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &webConn{connect: bytesStream{Reader: bytes.NewReader(b)}}
		err := c.readCapsules()
		if e, ok := errors.AsType[*transport.CloseError](err); err == nil || ok && (len(e.Reason) > transport.MaxReason || e.Code > 1<<32-1) {
			t.Errorf("%x ends the session with %v", b, err)
		}
	})
}

func FuzzReadHead(f *testing.F) {
	for _, b := range [][]byte{{0x40, 0x54, 0}, {0x40, 0x41, 0x40, 0x64}, {0x40, 0x54, 0xff, 1, 2, 3, 4, 5, 6, 7}, {0x40}, nil} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		id, err := readHead(r)
		if err != nil {
			return
		}
		want, n, err := quicvarint.Parse(b[2:])
		if err != nil || id != want || len(b)-r.Len() != 2+n {
			t.Errorf("%x: id %d after %d bytes, want %d after %d (%v)", b, id, len(b)-r.Len(), want, 2+n, err)
		}
	})
}
