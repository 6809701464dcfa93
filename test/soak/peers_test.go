//go:build soak

package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/auth"
	"github.com/moqrelay/operator/relay/model"
	session "github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// way is how a peer comes.
type way struct {
	Kind    transport.Kind
	Version lite.Version
}

func (w way) String() string { return string(w.Kind) + " " + w.Version.String() }

// ways are all of them.
var ways = func() (all []way) {
	for _, kind := range []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket} {
		for _, v := range append(lite.Released(), lite.Lite06wip, lite.Lite07wip) {
			all = append(all, way{kind, v})
		}
	}
	return all
}()

// saysPath reports whether the way can name a path, and so bring a token.
func (w way) saysPath() bool { return w.Kind != transport.QUIC || w.Version.HasSetup() }

// place is where peers find a relay, and the key of its tokens.
type place struct {
	Address string // HOST:PORT
	Hash    [sha256.Size]byte
	Key     string // text of the private JWK
}

// newPlace asks a relay for its certificate's hash.
func newPlace(address, key string) (place, error) {
	p := place{Address: address, Key: key}
	_, text, err := get("http://" + address + "/certificate.sha256")
	if err != nil {
		return p, err
	}
	raw, err := hex.DecodeString(strings.TrimSpace(text))
	copy(p.Hash[:], raw)
	return p, err
}

// token makes one that lets its holder do everything below "live" for some time.
// The claim has whole seconds.
func (p place) token(lasts time.Duration) (string, error) {
	key, err := auth.ParseKey([]byte(p.Key))
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"root": "live", "put": "", "get": "", "exp": time.Now().Add(lasts).Unix() + 1})
	if err != nil {
		return "", err
	}
	return key.Sign(claims)
}

// peer is a client's session.
type peer struct {
	conn   transport.Conn
	origin *model.Origin
	below  model.Path // what comes in front of names: "" where the session's root is "live"
	ended  chan struct{}
	leave  chan struct{} // closed when the relay has said GOAWAY
	cancel context.CancelFunc
}

// join opens a session that its token lets live for some time. wrap, if not nil,
// stands between the connection and the session.
func (p place) join(ctx context.Context, w way, role lite.Role, lasts time.Duration, wrap func(transport.Conn) transport.Conn) (*peer, error) {
	token, err := p.token(lasts)
	if err != nil {
		return nil, err
	}
	path := "/live?jwt=" + token
	conn, err := p.dial(ctx, w, path)
	if err != nil {
		return nil, err
	}
	cfg := session.Config{Role: role}
	peer := &peer{conn: conn, ended: make(chan struct{}), leave: make(chan struct{})}
	switch {
	case !w.saysPath():
		peer.below = "live"
	case w.Kind == transport.QUIC:
		cfg.RequestPath = path
	}
	ctx, peer.cancel = context.WithCancel(ctx)
	peer.origin = model.NewOrigin(model.Config{})
	cfg.Origin = peer.origin
	cfg.OnGoaway = func(string) { close(peer.leave) }
	if wrap != nil {
		conn = wrap(conn)
	}
	go func() {
		defer close(peer.ended)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = peer.origin.Run(ctx)
		}()
		_ = session.Serve(ctx, conn, w.Version, cfg)
		peer.cancel()
		<-done
	}()
	return peer, nil
}

func (p place) dial(ctx context.Context, w way, path string) (transport.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tokens := []string{w.Version.String()}
	if w.Kind == transport.WebSocket {
		return qmux.Dial(ctx, "ws://"+p.Address+path, &qmux.Config{Protocols: tokens, MaxDatagramFrameSize: 16 << 10})
	}
	cfg := quic.DialConfig{
		Protocols: tokens, TLS: &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS13},
		CertificateHashes: [][sha256.Size]byte{p.Hash},
	}
	if w.Kind == transport.WebTransport {
		return quic.DialWebTransport(ctx, "https://"+p.Address+path, cfg)
	}
	return quic.Dial(ctx, p.Address, cfg)
}

// close ends the session with a code and waits until nothing of it is left here.
func (p *peer) close(code uint64) {
	p.conn.Close(code, "")
	p.cancel()
	<-p.ended
}

// stay waits until the time is over, the session has ended, or ctx is done. It
// reports whether the session had ended.
func (p *peer) stay(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-p.ended:
		return true
	}
	return false
}

// path is the broadcast's in the peer's own origin.
func (p *peer) path(broadcast string) model.Path {
	if p.below == "" {
		return model.Path(broadcast)
	}
	return p.below + "/" + model.Path(broadcast)
}

// await waits until the broadcast is announced.
func (p *peer) await(ctx context.Context, path model.Path) error {
	w := p.origin.Watch(path, model.Peer{})
	defer w.Close()
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.Path == path && c.Kind != model.Ended {
				return nil
			}
		}
	}
}

// studio publishes tracks to whoever asks:
//
//	video  a group each second of ten frames of 2 KB, of which every other one is
//	       aborted in the middle of its sixth frame; even numbers are datagrams
//	large  a group each second of four frames of 300 KB
//
// Any group can be fetched but those whose number divides by seven.
type studio struct {
	ctx   context.Context
	name  string
	first uint64 // number of the first group
}

// pattern is a frame's payload: its place, over and over.
func pattern(track string, group uint64, frame, size int) []byte {
	text := fmt.Appendf(nil, "%s %d %d;", track, group, frame)
	return bytes.Repeat(text, size/len(text)+1)[:size]
}

// shape is how many frames a track's groups have, and their size.
func shape(track string) (frames, size int, ok bool) {
	switch track {
	case "video":
		return 10, 2_000, true
	case "large":
		return 4, 300_000, true
	}
	return 0, 0, false
}

// Pull implements [model.Source].
func (s *studio) Pull(p *model.Producer) {
	frames, size, ok := shape(p.Track())
	if !ok {
		p.Fail(model.ErrNotFound)
		return
	}
	p.Accept(model.Info{MaxAge: 5 * time.Second, Timescale: 1000})
	go func() {
		defer p.Close()
		every := time.NewTicker(time.Second / time.Duration(frames))
		defer every.Stop()
		for group := s.first; ; group++ {
			if p.Track() == "video" && group%2 == 0 {
				p.Datagram(group, time.Now().UnixMilli(), pattern("video", group, 0, 500))
				continue
			}
			w, err := p.Group(group, model.Window{Bytes: 4 << 20})
			if err != nil {
				return
			}
			if !s.fill(p, w, frames, size, every) {
				w.Abort(model.ErrCancelled)
				return
			}
		}
	}()
}

// fill writes a group, a frame at each tick. It is false when the request is over.
func (s *studio) fill(p *model.Producer, w *model.GroupWriter, frames, size int, every *time.Ticker) bool {
	var last int64
	for f := range frames {
		select {
		case <-every.C:
		case <-p.Done():
			return false
		case <-s.ctx.Done():
			return false
		}
		payload := pattern(p.Track(), w.Sequence(), f, size)
		if p.Track() == "video" && w.Sequence()%4 == 1 && f == 5 {
			abortWithin(s.ctx, w, last, payload)
			return true
		}
		if writeFrame(s.ctx, w, &last, payload) != nil {
			return true // nobody wants this group any more
		}
	}
	_ = w.Finish()
	return true
}

// writeFrame writes one frame; last is the timestamp of the one before.
func writeFrame(ctx context.Context, w *model.GroupWriter, last *int64, payload []byte) error {
	now := time.Now().UnixMilli()
	head, err := lite.FrameHead{Timestamp: now, Size: uint64(len(payload))}.Append(nil, lite.Lite06, *last)
	if err != nil {
		return err
	}
	*last = now
	return w.WriteFrame(ctx, head, now, payload)
}

// abortWithin begins a frame, writes half of it at most, and aborts the group.
func abortWithin(ctx context.Context, w *model.GroupWriter, last int64, payload []byte) {
	defer w.Abort(model.ErrCancelled)
	now := time.Now().UnixMilli()
	head, err := lite.FrameHead{Timestamp: now, Size: uint64(len(payload))}.Append(nil, lite.Lite06, last)
	if err != nil || w.BeginFrame(ctx, head, now, int64(len(payload))) != nil {
		return
	}
	if b, err := w.Buffer(ctx); err == nil {
		w.Commit(copy(b, payload[:len(payload)/2]))
	}
}

// Fetch implements [model.Fetcher].
func (s *studio) Fetch(r *model.GroupRequest) {
	frames, size, ok := shape(r.Track())
	if !ok || r.Sequence()%7 == 0 {
		r.Fail(model.ErrNotFound)
		return
	}
	go func() {
		w, err := r.Begin(model.Window{Bytes: 4 << 20})
		if err != nil {
			return
		}
		var last int64
		for f := range frames {
			if writeFrame(s.ctx, w, &last, pattern(r.Track(), r.Sequence(), f, size)) != nil {
				w.Abort(model.ErrCancelled)
				return
			}
		}
		_ = w.Finish()
	}()
}

// readGroup reads a group, every byte of which must be what was published. It
// returns how many frames were whole; an error that is not a [wrongError] is no
// fault of the relay's: groups are cut short and sessions end all the time here.
func readGroup(ctx context.Context, track string, r *model.Reader) (whole int, err error) {
	defer r.Close()
	_, size, _ := shape(track)
	for f := int(r.First()); ; f++ {
		frame, err := r.NextFrame(ctx)
		if err != nil {
			return whole, err
		}
		var payload []byte
		for {
			p, err := r.Payload(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return whole, err
			}
			payload = append(payload, p...)
			r.Taken(len(p))
		}
		if !bytes.Equal(payload, pattern(track, r.Sequence(), f, size)) {
			return whole, &wrongError{fmt.Sprintf("track %s group %d frame %d of %d bytes: %.60q", track, r.Sequence(), f, frame.Size, payload)}
		}
		whole++
	}
}

// wrongError says that bytes are not those that were published.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return "wrong bytes: " + e.text }

// deaf is a connection whose group streams nobody takes: only the peer's first
// unidirectional stream, that of SETUP, is read.
type deaf struct {
	transport.Conn
	first chan struct{} // has one place
}

func newDeaf(conn transport.Conn) transport.Conn {
	return &deaf{Conn: conn, first: make(chan struct{}, 1)}
}

// AcceptReceiveStream implements transport.Conn.
func (c *deaf) AcceptReceiveStream(ctx context.Context) (transport.ReceiveStream, error) {
	select {
	case c.first <- struct{}{}:
		return c.Conn.AcceptReceiveStream(ctx)
	default:
	}
	select {
	case <-c.Done():
		return nil, c.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
