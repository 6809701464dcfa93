package quic

import (
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A webMux sorts the streams that the peer opens on an HTTP/3 connection: those of
// the one WebTransport session from those of HTTP/3 itself.
type webMux struct {
	conn     *quic.Conn
	patience time.Duration // how long a stream waits for its session
	begun    chan struct{} // closed when there is a session
	session  *webConn      // set before begun is closed
}

func newWebMux(conn *quic.Conn, patience time.Duration) *webMux {
	return &webMux{conn: conn, patience: patience, begun: make(chan struct{})}
}

// begin says which session there is, once.
func (m *webMux) begin(session *webConn) {
	m.session = session
	close(m.begun)
}

// serve sorts until the connection has ended, and waits for all that it began.
// request and control take the streams of HTTP/3.
func (m *webMux) serve(request func(*quic.Stream), control func(*quic.ReceiveStream)) {
	ctx := m.conn.Context()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() {
		for {
			str, err := m.conn.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			tasks.Go(func() { m.uni(str, control) })
		}
	})
	for {
		str, err := m.conn.AcceptStream(ctx)
		if err != nil {
			return
		}
		tasks.Go(func() { m.bidi(str, request) })
	}
}

func (m *webMux) uni(str *quic.ReceiveStream, control func(*quic.ReceiveStream)) {
	ours, err := hasType(str, streamTypeUni)
	if err == nil && !ours {
		control(str)
		return
	}
	session, code := m.sessionOf(str, err)
	if session != nil {
		select {
		case session.uni <- str:
			return
		case <-session.done:
		}
	}
	str.CancelRead(code)
}

func (m *webMux) bidi(str *quic.Stream, request func(*quic.Stream)) {
	ours, err := hasType(str, streamTypeBidi)
	if err == nil && !ours {
		request(str)
		return
	}
	session, code := m.sessionOf(str, err)
	if session != nil {
		select {
		case session.bidi <- str:
			return
		case <-session.done:
		}
	}
	// Both halves, or the stream would count against the peer's limit for ever.
	str.CancelRead(code)
	str.CancelWrite(code)
}

// hasType says whether a stream is of a WebTransport type. Nothing is taken from it.
// The types are two bytes, as everybody writes them; HTTP/3's own are one.
func hasType(str interface{ Peek([]byte) (int, error) }, typ byte) (bool, error) {
	var b [2]byte
	if n, err := str.Peek(b[:1]); n < 1 {
		return false, err
	}
	if b[0] != 0x40 {
		return false, nil
	}
	n, err := str.Peek(b[:])
	if n < 2 {
		return false, err
	}
	return b[1] == typ, nil
}

// sessionOf takes the head of a stream that has one, unless err says that it will
// not come, and waits for the session. Without a session the code says why.
func (m *webMux) sessionOf(str io.Reader, err error) (*webConn, quic.StreamErrorCode) {
	const incomplete = quic.StreamErrorCode(http3.ErrCodeRequestIncomplete)
	if err != nil {
		return nil, incomplete
	}
	id, err := readHead(str)
	if err != nil {
		return nil, incomplete
	}
	if id%4 != 0 { // the CONNECT stream is bidirectional and the client's
		_ = m.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeIDError), "")
		return nil, streamRejected
	}
	patience := time.NewTimer(m.patience)
	defer patience.Stop()
	select {
	case <-m.begun:
	case <-patience.C:
	case <-m.conn.Context().Done():
	}
	select {
	case <-m.begun:
		if uint64(m.session.connect.StreamID()) == id {
			return m.session, sessionGone
		}
	default:
	}
	return nil, streamRejected
}

// readHead takes the type, which is two bytes, and returns the session's id.
func readHead(str io.Reader) (id uint64, err error) {
	var b [10]byte
	if _, err := io.ReadFull(str, b[:3]); err != nil {
		return 0, err
	}
	size := 1 << (b[2] >> 6)
	if _, err := io.ReadFull(str, b[3:2+size]); err != nil {
		return 0, err
	}
	id = uint64(b[2] & 0x3f)
	for _, next := range b[3 : 2+size] {
		id = id<<8 | uint64(next)
	}
	return id, nil
}
