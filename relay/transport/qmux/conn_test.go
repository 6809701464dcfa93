package qmux

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// memCarrier is a carrier in memory: the test puts records in and takes out what
// was sent. It blocks on nothing but channels.
type memCarrier struct {
	in     chan []byte
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	sent []string // records in hex, "shut" at the end; guarded by mu
	hold chan struct{}
}

func newMemCarrier() *memCarrier {
	return &memCarrier{in: make(chan []byte), closed: make(chan struct{})}
}

func (m *memCarrier) next() (io.Reader, error) {
	select {
	case b := <-m.in:
		return bytes.NewReader(b), nil
	case <-m.closed:
		return nil, io.EOF
	}
}

func (m *memCarrier) send(b []byte) error {
	m.mu.Lock()
	m.sent = append(m.sent, hex.EncodeToString(b[room:]))
	hold := m.hold
	m.mu.Unlock()
	if hold == nil {
		return nil
	}
	select { // the test lets one record through for each receive
	case hold <- struct{}{}:
		return nil
	case <-m.closed:
		return io.ErrClosedPipe
	}
}

func (m *memCarrier) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, "shut")
}

func (m *memCarrier) close() { m.once.Do(func() { close(m.closed) }) }

// take returns what was sent since the last call.
func (m *memCarrier) take() []string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.sent
	m.sent = nil
	return sent
}

// released are the parameters of released peers on each draft.
func released(d Draft) params {
	p := params{
		idleTimeout: 30000, maxData: 1 << 20,
		streamDataBidiLocal: 1 << 18, streamDataBidiRemote: 1 << 18, streamDataUni: 1 << 18,
		streamsBidi: 100, streamsUni: 100, recordSize: 16382, resetStreamAt: d == Draft02,
	}
	if d != Draft00 {
		p.datagramSize = 16382
	}
	return p
}

// peer is the far end of a connection under test, written in records.
type peer struct {
	t *testing.T
	*memCarrier
	conn *conn
}

// newPeer starts a connection and takes its parameters. It is used inside a
// synctest bubble.
func newPeer(t *testing.T, d Draft, client bool, local params) *peer {
	t.Helper()
	p := &peer{t: t, memCarrier: newMemCarrier()}
	p.conn = newConn(p.memCarrier, d, local, transport.Info{Client: client})
	p.conn.start()
	t.Cleanup(p.close)
	p.wantSent(hex.EncodeToString(appendParams(nil, local)))
	return p
}

// greeted is newPeer with a released peer's parameters received.
func greeted(t *testing.T, d Draft, client bool, local params) *peer {
	t.Helper()
	p := newPeer(t, d, client, local)
	p.put(hex.EncodeToString(appendParams(nil, released(d))))
	return p
}

// put has the connection receive records.
func (p *peer) put(records ...string) {
	p.t.Helper()
	for _, r := range records {
		select {
		case p.in <- unhex(r):
		case <-p.closed:
		}
	}
	synctest.Wait()
}

func (p *peer) wantSent(want ...string) {
	p.t.Helper()
	if got := p.take(); !slices.Equal(got, want) {
		p.t.Errorf("sent %v\nwant %v", cut(got), cut(want))
	}
}

func cut(list []string) []string {
	var short []string
	for _, s := range list {
		short = append(short, s[:min(len(s), 120)])
	}
	return short
}

// wantViolated wants a close frame with one of the codes, and the same end locally.
func (p *peer) wantViolated(codes ...uint64) {
	p.t.Helper()
	synctest.Wait()
	e, ok := errors.AsType[*transport.CloseError](p.conn.Err())
	if !ok || !e.Transport || e.Remote || !slices.Contains(codes, e.Code) {
		p.t.Errorf("the connection's end is %v, want ours with transport code %v", p.conn.Err(), codes)
		return
	}
	p.wantSent(hex.EncodeToString(appendClose(nil, e)), "shut")
}

func (p *peer) wantOpen() {
	p.t.Helper()
	synctest.Wait()
	if err := p.conn.Err(); err != nil {
		p.t.Errorf("the connection has ended: %v", err)
	}
}

func (p *peer) acceptUni() transport.ReceiveStream {
	p.t.Helper()
	s, err := p.conn.AcceptReceiveStream(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *peer) acceptBidi() transport.Stream {
	p.t.Helper()
	s, err := p.conn.AcceptStream(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *peer) openUni() transport.SendStream {
	p.t.Helper()
	s, err := p.conn.OpenSendStream(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *peer) openBidi() transport.Stream {
	p.t.Helper()
	s, err := p.conn.OpenStream(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *peer) write(s io.Writer, b string) {
	p.t.Helper()
	if n, err := s.Write([]byte(b)); n != len(b) || err != nil {
		p.t.Fatalf("Write: %d, %v", n, err)
	}
}

func (p *peer) wantRead(s io.Reader, want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s, got); err != nil || string(got) != want {
		p.t.Errorf("read %q, %v, want %q", got[:n], err, want)
	}
}

// zeros is n bytes of PADDING.
func zeros(n int) string { return strings.Repeat("00", n) }

var sessionErrorRows = []struct {
	name     string
	drafts   []Draft
	early    bool // without the peer's parameters before
	change   func(*params)
	messages []string
	codes    []uint64
}{
	{name: "first frame is not QX_TRANSPORT_PARAMETERS", drafts: []Draft{Draft02}, early: true, messages: []string{"1004"}, codes: []uint64{10}},
	{name: "first frame is not QX_TRANSPORT_PARAMETERS", drafts: []Draft{Draft00, Draft01}, early: true, messages: []string{"1004"}, codes: []uint64{8}},
	{name: "second QX_TRANSPORT_PARAMETERS", drafts: []Draft{Draft02}, messages: []string{"ff5153300d0a0d0a00"}, codes: []uint64{10}},
	{name: "second QX_TRANSPORT_PARAMETERS", drafts: []Draft{Draft00, Draft01}, messages: []string{"ff5153300d0a0d0a00"}, codes: []uint64{8}},
	{name: "max_record_size below 16382", drafts: []Draft{Draft01, Draft02}, early: true, messages: []string{"ff5153300d0a0d0a0bc571c59429cd0845025000"}, codes: []uint64{8}},
	{name: "record of 16383 bytes against 16382", drafts: []Draft{Draft01, Draft02}, messages: []string{zeros(16383)}, codes: []uint64{7}},
	{name: "frame of 16385 bytes against 16384", drafts: []Draft{Draft00}, messages: []string{"0e00007ffc" + zeros(16380)}, codes: []uint64{7}},
	{name: "empty message", drafts: []Draft{Draft00}, messages: []string{""}, codes: []uint64{7}},
	{name: "uni stream index 100 with a limit of 100", drafts: Drafts(), messages: []string{"0e41920001aa"}, codes: []uint64{4}},
	{name: "bidi stream index 2 with a limit of 2", drafts: Drafts(), change: func(p *params) { p.streamsBidi = 2 }, messages: []string{"0e080001aa"}, codes: []uint64{4}},
	{name: "RESET_STREAM beyond the limit", drafts: Drafts(), change: func(p *params) { p.streamsUni = 1 }, messages: []string{"04060000"}, codes: []uint64{4}},
	{name: "stream data above initial_max_stream_data_uni", drafts: Drafts(), change: func(p *params) { p.streamDataUni = 4 }, messages: []string{"0e0200050000000000"}, codes: []uint64{3}},
	{name: "connection data above initial_max_data over two streams", drafts: Drafts(), change: func(p *params) { p.maxData = 5 }, messages: []string{"0e020003000000", "0e060003000000"}, codes: []uint64{3}},
	{name: "RESET_STREAM final size above the stream window", drafts: Drafts(), change: func(p *params) { p.streamDataUni = 4 }, messages: []string{"04020005"}, codes: []uint64{3}},
	{name: "RESET_STREAM final size above the connection window", drafts: Drafts(), change: func(p *params) { p.maxData = 4 }, messages: []string{"04020005"}, codes: []uint64{3}},
	{name: "STREAM on a server uni stream sent by the client", drafts: Drafts(), messages: []string{"0e030001aa"}, codes: []uint64{5}},
	{name: "RESET_STREAM on a server uni stream sent by the client", drafts: Drafts(), messages: []string{"04030000"}, codes: []uint64{5}},
	{name: "STREAM on a server bidi stream that was not opened", drafts: Drafts(), messages: []string{"0e010001aa"}, codes: []uint64{5}},
	{name: "RESET_STREAM on a server bidi stream that was not opened", drafts: Drafts(), messages: []string{"04010000"}, codes: []uint64{5}},
	{name: "STOP_SENDING for a client uni stream", drafts: Drafts(), messages: []string{"050200"}, codes: []uint64{5}},
	{name: "MAX_STREAM_DATA for a client uni stream", drafts: Drafts(), messages: []string{"110204"}, codes: []uint64{5}},
	{name: "DATAGRAM although max_datagram_frame_size was 0", drafts: []Draft{Draft01, Draft02}, change: func(p *params) { p.datagramSize = 0 }, messages: []string{"3105646772616d"}, codes: []uint64{10}},
	{name: "DATAGRAM frame of 7 bytes against 6", drafts: []Draft{Draft01, Draft02}, change: func(p *params) { p.datagramSize = 6 }, messages: []string{"31050000000000"}, codes: []uint64{10}},
	{name: "DATAGRAM on draft 00", drafts: []Draft{Draft00}, messages: []string{"3105646772616d"}, codes: []uint64{10}},
	{name: "QX_PING response for a sequence never sent", drafts: []Draft{Draft02}, messages: []string{"f48c67529ef8c7be00"}, codes: []uint64{10}},
	{name: "RESET_STREAM_AT without reset_stream_at advertised", drafts: []Draft{Draft00, Draft01}, messages: []string{"0e0200020000", "2402000201"}, codes: []uint64{7, 10}},
	{name: "STREAM payload leaves a gap", drafts: Drafts(), messages: []string{"0e0200026869", "0e0205017a"}, codes: []uint64{10}},
	{name: "STREAM payload overlaps", drafts: Drafts(), messages: []string{"0e0200026869", "0e0200026869"}, codes: []uint64{10}},
	{name: "prohibited frame", drafts: Drafts(), messages: []string{"01"}, codes: []uint64{7}},
	{name: "truncated frame after a good one", drafts: []Draft{Draft01, Draft02}, messages: []string{"10041104"}, codes: []uint64{7}},
}

func TestPeersFaultsEndTheSessionWithTheirCode(t *testing.T) {
	for _, row := range sessionErrorRows {
		for _, d := range row.drafts {
			t.Run(row.name+"/"+d.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					local := released(d)
					if row.change != nil {
						row.change(&local)
					}
					p := newPeer(t, d, false, local)
					if !row.early {
						p.put(hex.EncodeToString(appendParams(nil, released(d))))
					}
					p.put(row.messages...)
					p.wantViolated(row.codes...)
				})
			})
		}
	}
}

func TestARepeatedPingRequestIsAViolationOnDraft02Only(t *testing.T) {
	for _, d := range []Draft{Draft01, Draft02} {
		synctest.Test(t, func(t *testing.T) {
			p := greeted(t, d, false, released(d))
			p.put("f48c67529ef8c7bd00")
			p.wantSent("f48c67529ef8c7be00")
			p.put("f48c67529ef8c7bd00")
			if d == Draft02 {
				p.wantViolated(codeProtocolViolation)
				return
			}
			p.wantSent("f48c67529ef8c7be00")
		})
	}
}

func TestOdditiesDoNotEndTheSession(t *testing.T) {
	for _, row := range []struct {
		name     string
		drafts   []Draft
		messages []string
	}{
		{"two frames in one draft 00 message: the second is dropped", []Draft{Draft00}, []string{"1004110204"}},
		{"padding alone", Drafts(), []string{"00", "000000"}},
		{"empty message", []Draft{Draft01, Draft02}, []string{""}},
		{"STREAM for a finished stream", Drafts(), []string{"0f020001aa", "0e020101aa", "0e020501aa"}},
		{"RESET_STREAM for a finished stream", Drafts(), []string{"0f020001aa", "0402003f"}},
		{"second RESET_STREAM with another final size", Drafts(), []string{"0e020001aa", "04020007", "04020009"}},
		{"MAX_STREAM_DATA and STOP_SENDING for streams that nobody opened", Drafts(), []string{"1140ff04", "0540ff04", "110004", "050004"}},
		{"RESET_STREAM_AT after advertising it", []Draft{Draft02}, []string{"0e0200020000", "2402000201"}},
		{"BLOCKED frames", Drafts(), []string{"1404", "150204", "1604", "1704"}},
		{"final size below the bytes received", Drafts(), []string{"0e020003010203", "04020000"}},
		{"lower limits than before", Drafts(), []string{"1004", "1201", "1301"}},
		{"empty STREAM", Drafts(), []string{"0e020000", "0e020000", "0e020001aa"}},
		{"datagram as advertised", []Draft{Draft01, Draft02}, []string{"3105646772616d", "306472"}},
		{"ping on draft 00", []Draft{Draft00}, []string{"f48c67529ef8c7bd", "f48c67529ef8c7bd00", "f48c67529ef8c7be09"}},
		{"continuation without an offset", Drafts(), []string{"0e020001aa", "0a0201bb"}},
		{"largest message", Drafts(), []string{"0e00007ff5" + zeros(16373)}},
	} {
		for _, d := range row.drafts {
			t.Run(row.name+"/"+d.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := greeted(t, d, false, released(d))
					p.put(row.messages...)
					p.wantOpen()
					p.wantSent()
				})
			})
		}
	}
}

func TestPaddingMayComeBeforeTheParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, Draft02, false, released(Draft02))
		p.put("0000", "0000"+hex.EncodeToString(appendParams(nil, released(Draft02))), "1080200000")
		p.wantOpen()
	})
}

func TestAClientsSessionIsTheReleasedPeersMessageForMessage(t *testing.T) {
	for _, d := range Drafts() {
		synctest.Test(t, func(t *testing.T) {
			p := greeted(t, d, true, released(d))
			s := p.openUni()
			p.write(s, "hi")
			_ = s.Close()
			b := p.openBidi()
			p.write(b, "q")
			b.Reset(9)
			synctest.Wait()
			b.Stop(5)
			p.wantSent("0e0200026869", "0f020200", "0e00000171", "04000901", "050005")
		})
	}
}

func TestAServersSessionIsTheReleasedPeersMessageForMessage(t *testing.T) {
	for _, d := range Drafts() {
		synctest.Test(t, func(t *testing.T) {
			p := greeted(t, d, false, released(d))
			p.put("0e000003616263", "0f000300")
			s := p.acceptBidi()
			p.wantRead(s, "abc")
			if _, err := s.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("Read after FIN: %v, want EOF", err)
			}
			p.write(s, "ok")
			_ = s.Close()
			p.wantSent("0e0000026f6b", "0f000200")
			p.conn.Close(7, "bye")
			p.wantSent("1d0703627965", "shut")
		})
	}
}

func TestACloseBeforeAnythingElseComesAfterTheParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemCarrier()
		defer m.close()
		c := newConn(m, Draft02, released(Draft02), transport.Info{Client: true})
		c.startTimer(time.Now())
		c.Close(7, "bye") // before the writer had a turn
		go c.receiveLoop()
		go c.sendLoop()
		want := []string{hex.EncodeToString(appendParams(nil, released(Draft02))), "1d0703627965", "shut"}
		if got := m.take(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

func TestThePeersCloseIsTheEndAsItSaysIt(t *testing.T) {
	for _, row := range []struct {
		record string
		want   transport.CloseError
	}{
		{"1d0703627965", transport.CloseError{Code: 7, Reason: "bye", Remote: true}},
		{"1d0000", transport.CloseError{Remote: true}},
		{"1c43ea001250726f746f636f6c2076696f6c6174696f6e", transport.CloseError{Code: 1002, Reason: "Protocol violation", Remote: true, Transport: true}},
	} {
		for _, early := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, Draft02, false, released(Draft02))
				if !early {
					p.put(hex.EncodeToString(appendParams(nil, released(Draft02))))
				}
				p.put(row.record, "01") // what follows a close is not looked at
				e, ok := errors.AsType[*transport.CloseError](p.conn.Err())
				if !ok || *e != row.want {
					t.Errorf("after %s the end is %v, want %+v", row.record, p.conn.Err(), row.want)
				}
				p.wantSent("shut")
			})
		}
	}
}

func TestStopSendingIsAnsweredWithAResetOfTheSameCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		s := p.openUni()
		p.write(s, "hello")
		closed := p.openUni()
		p.write(closed, "x")
		_ = closed.Close()
		p.take()
		p.put("05032a", "05072b")
		p.wantSent("04032a05") // nothing for the stream whose FIN was sent
		_, err := s.Write([]byte("more"))
		if e, ok := errors.AsType[*transport.StreamError](err); !ok || e.Code != 42 || !e.Remote {
			t.Errorf("Write after STOP_SENDING: %v, want the peer's code 42", err)
		}
		<-s.Stopped()
	})
}

func TestStopOfAStreamThePeerDoesNotKnowOpensItFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, true, released(Draft02))
		p.openBidi().Stop(3)
		p.wantSent("0e000000", "050003")
	})
}

func TestAResetsFinalSizeIsWhatWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, true, released(Draft02))
		hold := make(chan struct{})
		p.hold = hold
		s := p.openUni()
		done := make(chan error, 1)
		go func() {
			_, err := s.Write(make([]byte, 100_000))
			done <- err
		}()
		synctest.Wait() // the first frame of 16,352 bytes is held up in the carrier
		s.Reset(9)
		if err := <-done; err == nil {
			t.Error("the blocked Write succeeded")
		}
		<-hold
		p.put()
		sent := p.take()
		want := []string{"0e02007fe0" + zeros(16352), "0402097fe0"}
		if !slices.Equal(sent, want) {
			t.Errorf("sent %v\nwant %v", cut(sent), cut(want))
		}
		<-hold
	})
}

func TestResetStreamAtDeliversItsReliableBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		p.put("0e02000461626364", "2402090a03") // code 9, final size 10, reliable size 3
		s := p.acceptUni()
		p.wantRead(s, "abc")
		_, err := s.Read(make([]byte, 1))
		if e, ok := errors.AsType[*transport.StreamError](err); !ok || e.Code != 9 || !e.Remote {
			t.Errorf("Read after the reliable bytes: %v, want the peer's code 9", err)
		}
	})
}

func TestStreamsAreAcceptedInTheOrderOfTheirFirstFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		p.put("0e0a000163", "0e02000161", "0e0a010143", "0e06000162")
		for _, want := range []string{"cC", "a", "b"} {
			p.wantRead(p.acceptUni(), want)
		}
	})
}

func TestStreamsTakeTurnsFrameByFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, true, released(Draft02))
		hold := make(chan struct{})
		p.mu.Lock()
		p.hold = hold
		p.mu.Unlock()
		for range 3 {
			s := p.openUni()
			go func() { _, _ = s.Write(make([]byte, 2*maxStreamPayload)) }()
			synctest.Wait()
		}
		p.put("f48c67529ef8c7bd05") // a control frame overtakes what waits
		var order []string
		for range 7 {
			<-hold
			for _, r := range p.take() {
				order = append(order, r[:min(len(r), 4)])
			}
		}
		// The first stream had queued its second frame when there was no other.
		want := []string{"0e02", "f48c", "0e02", "0e06", "0e0a", "0e06", "0e0a"}
		if !slices.Equal(order, want) {
			t.Errorf("frames went out as %v, want %v", order, want)
		}
		p.close()
	})
}

func TestABareEndOfTheCarrierIsNoClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		p.close()
		<-p.conn.Done()
		err := p.conn.Err()
		if _, ok := errors.AsType[*transport.CloseError](err); ok || errors.Is(err, io.EOF) || err.Error() != "qmux: carrier lost: EOF" {
			t.Errorf("the end is %v, want the carrier's loss, which is no end of a stream", err)
		}
		p.wantSent()
	})
}

func TestOpenReturnsItsContextsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, Draft02, true, released(Draft02)) // no credit before the peer's parameters
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := p.conn.OpenStream(ctx); !errors.Is(err, cause) {
			t.Errorf("OpenStream: %v, want %v", err, cause)
		}
	})
}

// memLink joins two connections in memory.
type memLink struct {
	*memCarrier
	far *memCarrier
}

func (l memLink) send(b []byte) error {
	select {
	case l.far.in <- bytes.Clone(b[room:]):
		return nil
	case <-l.closed:
		return io.ErrClosedPipe
	case <-l.far.closed:
		return io.ErrClosedPipe
	}
}

func (l memLink) shut() { l.far.close() }

func (l memLink) close() {
	l.memCarrier.close()
	l.far.close()
}

// linked returns two connections that talk to each other in memory.
func linked(d Draft, client, server params) (*conn, *conn) {
	a, b := newMemCarrier(), newMemCarrier()
	c := newConn(memLink{a, b}, d, client, transport.Info{Client: true})
	s := newConn(memLink{b, a}, d, server, transport.Info{})
	c.start()
	s.start()
	return c, s
}

// Windows so small that every frame needs fresh credit, in all directions at once.
func TestSmallWindowsCarryEverything(t *testing.T) {
	small := params{
		maxData: 120, streamDataBidiLocal: 24, streamDataBidiRemote: 24, streamDataUni: 10,
		streamsBidi: 4, streamsUni: 4, recordSize: defaultRecordSize,
	}
	for _, d := range Drafts() {
		synctest.Test(t, func(t *testing.T) {
			client, server := linked(d, small, small)
			var all sync.WaitGroup
			for _, c := range []*conn{client, server} {
				for i := range 20 {
					all.Go(func() { echoBidi(t, c, fmt.Sprintf("%04d", i)) })
					all.Go(func() { sendUni(t, c, 700) })
				}
				all.Go(func() { serveBidi(t, c, 20) })
				all.Go(func() { receiveUni(t, c, 20, 700) })
			}
			all.Wait()
			client.Close(0, "")
			<-server.Done()
		})
	}
}

func echoBidi(t *testing.T, c *conn, text string) {
	s, err := c.OpenStream(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	want := strings.Repeat(text, 300)
	var writing sync.WaitGroup
	writing.Go(func() {
		_, _ = io.WriteString(s, want)
		_ = s.Close()
	})
	got, err := io.ReadAll(s)
	writing.Wait()
	if err != nil || string(got) != want {
		t.Errorf("echo of %d bytes: %d, %v", len(want), len(got), err)
	}
}

func serveBidi(t *testing.T, c *conn, n int) {
	var all sync.WaitGroup
	defer all.Wait()
	for range n {
		s, err := c.AcceptStream(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		all.Go(func() {
			_, _ = io.Copy(s, s)
			_ = s.Close()
		})
	}
}

func sendUni(t *testing.T, c *conn, size int) {
	s, err := c.OpenSendStream(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	if n, err := s.Write(make([]byte, size)); n != size || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	_ = s.Close()
}

func receiveUni(t *testing.T, c *conn, n, size int) {
	var all sync.WaitGroup
	defer all.Wait()
	for range n {
		s, err := c.AcceptReceiveStream(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		all.Go(func() {
			if got, err := io.ReadAll(s); len(got) != size || err != nil {
				t.Errorf("read %d bytes, %v, want %d", len(got), err, size)
			}
		})
	}
}

// Whatever records a peer sends: no panic, no memory beyond the windows, and an
// end that is a close with a code of RFC 9000, the peer's own, or none.
func FuzzSession(f *testing.F) {
	greeting := appendParams(nil, released(Draft02))
	for _, row := range sessionErrorRows {
		if len(row.messages) > 0 && len(row.messages[0]) < 200 {
			f.Add(uint8(row.drafts[0]), false, bytes.Join([][]byte{greeting, unhex(strings.Join(row.messages, ""))}, nil))
		}
	}
	for _, row := range frameRows {
		f.Add(uint8(Draft02), true, append(bytes.Clone(greeting), unhex(row.hex)...))
	}
	local := params{
		maxData: 300, streamDataBidiLocal: 100, streamDataBidiRemote: 100, streamDataUni: 100,
		streamsBidi: 3, streamsUni: 3, recordSize: defaultRecordSize, resetStreamAt: true, datagramSize: 100,
	}
	f.Fuzz(func(t *testing.T, draft uint8, client bool, data []byte) {
		d := Draft(draft % 3)
		c := newConn(newMemCarrier(), d, local, transport.Info{Client: client})
		c.startTimer(time.Now())
		defer c.lost(io.EOF)
		for len(data) > 0 && c.Err() == nil {
			n := int(data[0])%64 + 1 // records of all sizes
			n = min(n, len(data))
			feed(c, data[:n])
			data = data[n:]
			drive(c)
			checkBounds(t, c)
		}
	})
}

// feed has the connection receive one record, without its goroutines.
func feed(c *conn, record []byte) {
	err := c.receive(bytes.NewReader(record))
	if e, ok := errors.AsType[*transport.CloseError](err); ok {
		c.violated(e)
	}
}

// drive does what an application may: accept, read a little, stop, reset, and
// lets the writer have its turns.
func drive(c *conn) {
	c.mu.Lock()
	for k := range c.remotes {
		if s, _ := c.acceptLocked(kind(k)); s != nil && s.id&4 != 0 {
			defer s.Stop(1)
		}
		if s, _ := c.openLocked(kind(k)); s != nil && s.id&4 != 0 {
			defer s.Reset(2)
		}
	}
	for _, s := range c.streams {
		if s.unread.len > 0 && s.id&8 == 0 {
			s.consumeLocked(s.unread.take(make([]byte, 7)))
		}
	}
	c.mu.Unlock()
	for range 4 {
		buf := buffers.Get().(*buffer)
		c.next(buf[:room])
		buffers.Put(buf)
	}
}

func checkBounds(t *testing.T, c *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unread := 0
	for _, s := range c.streams {
		unread += s.unread.len
		if s.window.used > s.window.limit || s.window.consumed > s.window.used {
			t.Fatalf("stream %d: %+v", s.id, s.window)
		}
	}
	if unread > 300 || c.window.used > c.window.limit || c.window.consumed > c.window.used {
		t.Fatalf("%d bytes unread, connection %+v", unread, c.window)
	}
	for _, r := range c.remotes {
		if r.arrived.len() > 3 || len(r.skipped) > 3 || r.window.used > r.window.limit {
			t.Fatalf("%d streams wait, %d skipped, %+v", r.arrived.len(), len(r.skipped), r.window)
		}
	}
}
