package lite

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// A script is a peer that speaks by bytes. Each line is one step, a # starts a
// comment:
//
//	open bidi a          open a stream and call it a (bidi or uni)
//	accept uni b         take the next stream that the session opens
//	none uni             the session has opened no further stream
//	a write 01 02fin     write bytes, text in quotes: a write 03 "cam"
//	a fin                end our half; a reset 5, a stop 5 likewise
//	a want 01 02         the next bytes of the session's half are these
//	a want fin           it ends here; a want reset 0x36 likewise
//	a want stop 1        the session no longer wants our half (the code is checked)
//	a want nothing       nothing more comes, and it is not at its end
//	wait 2s              of the bubble's time
//	close 0x3 text       the session has closed with this code, for a reason with text
//	alive                the session has not closed
type script struct {
	ctx      context.Context // outlives the test's own, so that ends are seen
	t        *testing.T
	conn     transport.Conn
	ours     *transport.PipeConn // the session's end
	streams  map[string]*scriptStream
	session  *Session
	origin   *model.Origin
	counters *session.Counters
	bench    *bench
	waiting  map[string]chan *scriptStream // accepted, by kind
	deaf     atomic.Bool                   // streams that are accepted are not read
}

// scriptStream is one stream of the peer. What arrives is collected.
type scriptStream struct {
	send transport.SendStream
	recv transport.ReceiveStream

	mu  sync.Mutex
	got []byte
	end error
}

// relayID is the hop id of the relay in scripts.
const relayID = 10

// newScript returns a peer of a session on the given side of a pipe.
func newScript(t *testing.T, v lite.Version, cfg Config, pipe transport.PipeConfig, client bool) *script {
	t.Helper()
	return newMeasuredScript(t, v, cfg, pipe, client, transport.Stats{})
}

// newMeasuredScript is newScript on a connection that measures something.
func newMeasuredScript(t *testing.T, v lite.Version, cfg Config, pipe transport.PipeConfig, client bool, stats transport.Stats) *script {
	t.Helper()
	return newWrappedScript(t, v, cfg, pipe, client, func(c *transport.PipeConn) transport.Conn {
		c.SetStats(stats)
		return c
	})
}

// newWrappedScript is newScript with something around the session's connection.
func newWrappedScript(t *testing.T, v lite.Version, cfg Config, pipe transport.PipeConfig, client bool, wrap func(*transport.PipeConn) transport.Conn) *script {
	t.Helper()
	b := newBench(t)
	t.Cleanup(b.end)
	pipe.Protocol = v.String()
	c, s := transport.Pipe(pipe)
	ours, theirs := s, c
	if client {
		ours, theirs = c, s
	}
	if cfg.Origin == nil {
		cfg.Origin = newOrigin(relayID)
	}
	cfg.Counters = &session.Counters{}
	sc := &script{
		t: t, ctx: context.WithoutCancel(t.Context()), conn: theirs, ours: ours, streams: make(map[string]*scriptStream), origin: cfg.Origin,
		counters: cfg.Counters, bench: b,
		waiting: map[string]chan *scriptStream{"bidi": make(chan *scriptStream, 1000), "uni": make(chan *scriptStream, 1000)},
	}
	sc.session = b.run(wrap(ours), v, cfg)
	b.tasks.Go(sc.acceptBidi)
	b.tasks.Go(sc.acceptUni)
	return sc
}

func (s *script) acceptBidi() {
	for {
		st, err := s.conn.AcceptStream(s.ctx)
		if err != nil {
			return
		}
		s.waiting["bidi"] <- s.newStream(st, st)
	}
}

func (s *script) acceptUni() {
	for {
		st, err := s.conn.AcceptReceiveStream(s.ctx)
		if err != nil {
			return
		}
		s.waiting["uni"] <- s.newStream(nil, st)
	}
}

func (s *script) newStream(send transport.SendStream, recv transport.ReceiveStream) *scriptStream {
	st := &scriptStream{send: send, recv: recv}
	if recv != nil && !s.deaf.Load() {
		s.bench.tasks.Go(st.collect)
	}
	return st
}

func (st *scriptStream) collect() {
	buf := make([]byte, 64<<10)
	for {
		n, err := st.recv.Read(buf)
		st.mu.Lock()
		st.got = append(st.got, buf[:n]...)
		st.end = err
		st.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// run does the steps of a script.
func (s *script) run(text string) {
	s.t.Helper()
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := s.step(line); err != nil {
			s.t.Fatalf("line %d, %q: %v", i+1, line, err)
		}
	}
}

func (s *script) step(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "open", "accept", "none":
		return s.stepStream(word, rest)
	case "wait":
		d, err := time.ParseDuration(rest)
		advance(d)
		return err
	case "close":
		return s.stepClose(rest)
	case "alive":
		synctest.Wait()
		return s.conn.Err()
	}
	st := s.streams[word]
	if st == nil {
		return fmt.Errorf("no stream %q", word)
	}
	verb, args, _ := strings.Cut(rest, " ")
	return st.step(verb, strings.TrimSpace(args))
}

func (s *script) stepStream(word, rest string) error {
	kind, name, _ := strings.Cut(rest, " ")
	var st *scriptStream
	switch {
	case word == "none":
		synctest.Wait()
		if n := len(s.waiting[kind]); n > 0 {
			return fmt.Errorf("%d streams wait", n)
		}
		return nil
	case word == "open" && kind == "bidi":
		c, err := s.conn.OpenStream(s.bench.ctx)
		if err != nil {
			return err
		}
		st = s.newStream(c, c)
	case word == "open":
		c, err := s.conn.OpenSendStream(s.bench.ctx)
		if err != nil {
			return err
		}
		st = s.newStream(c, nil)
	default:
		select {
		case st = <-s.waiting[kind]:
		case <-time.After(20 * time.Second):
			return errors.New("the session opens none")
		}
	}
	s.streams[name] = st
	return nil
}

func (s *script) stepClose(args string) error {
	code, text, _ := strings.Cut(args, " ")
	want, err := strconv.ParseUint(code, 0, 64)
	if err != nil {
		return err
	}
	select {
	case <-s.conn.Done():
	case <-time.After(20 * time.Second):
		return errors.New("the session is open")
	}
	closed, ok := errors.AsType[*transport.CloseError](s.conn.Err())
	if !ok || closed.Code != want || !strings.Contains(closed.Reason, text) {
		return fmt.Errorf("closed with %v", s.conn.Err())
	}
	return nil
}

// clear forgets what has come so far.
func (st *scriptStream) clear() {
	synctest.Wait()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.got = nil
}

func (st *scriptStream) step(verb, args string) error {
	switch verb {
	case "write":
		p, err := parseBytes(args)
		if err != nil {
			return err
		}
		_, err = st.send.Write(p)
		return err
	case "fin":
		err := st.send.Close()
		if ended, ok := errors.AsType[*transport.StreamError](err); ok && ended.Remote {
			return nil // the session had enough before it came
		}
		return err
	case "reset", "stop":
		code, err := strconv.ParseUint(args, 0, 64)
		if verb == "reset" {
			st.send.Reset(code)
		} else {
			st.recv.Stop(code)
		}
		return err
	case "want":
		return st.want(args)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

func (st *scriptStream) want(args string) error {
	word, code, _ := strings.Cut(args, " ")
	switch word {
	case "fin":
		return st.wantEnd(func(err error) bool { return err == io.EOF })
	case "reset":
		want, err := strconv.ParseUint(code, 0, 64)
		if err != nil {
			return err
		}
		return st.wantEnd(func(err error) bool {
			reset, ok := errors.AsType[*transport.StreamError](err)
			return ok && reset.Remote && reset.Code == want
		})
	case "stop":
		return st.wantStop(code)
	case "nothing":
		synctest.Wait()
		st.mu.Lock()
		defer st.mu.Unlock()
		if len(st.got) > 0 || st.end != nil {
			return fmt.Errorf("%x came, end %v", st.got, st.end)
		}
		return nil
	}
	want, err := parseBytes(args)
	if err != nil {
		return err
	}
	return st.wantBytes(want)
}

// wantBytes waits for as many bytes as are wanted and compares them.
func (st *scriptStream) wantBytes(want []byte) error {
	for range 2000 {
		synctest.Wait()
		st.mu.Lock()
		enough := len(st.got) >= len(want) || st.end != nil
		st.mu.Unlock()
		if enough {
			break
		}
		advance(10 * time.Millisecond)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	n := min(len(want), len(st.got))
	if !bytes.Equal(st.got[:n], want) {
		return fmt.Errorf("came %x (end %v)\nwant %x", st.got, st.end, want)
	}
	st.got = st.got[n:]
	return nil
}

func (st *scriptStream) wantEnd(is func(error) bool) error {
	for range 2000 {
		synctest.Wait()
		st.mu.Lock()
		ended := st.end != nil
		st.mu.Unlock()
		if ended {
			break
		}
		advance(10 * time.Millisecond)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	reset, ok := errors.AsType[*transport.StreamError](st.end)
	if len(st.got) > 0 && !(ok && reset.Remote) || !is(st.end) {
		return fmt.Errorf("%x came, end %v", st.got, st.end)
	}
	return nil
}

func (st *scriptStream) wantStop(code string) error {
	select {
	case <-st.send.Stopped():
	case <-time.After(20 * time.Second):
		return errors.New("our half is still wanted")
	}
	want, err := strconv.ParseUint(code, 0, 64)
	if err != nil {
		return err
	}
	_, err = st.send.Write([]byte{0})
	stop, ok := errors.AsType[*transport.StreamError](err)
	if !ok || !stop.Remote || stop.Code != want {
		return fmt.Errorf("stopped with %v", err)
	}
	return nil
}

// parseBytes reads hex, with text in quotes.
func parseBytes(text string) ([]byte, error) {
	var out []byte
	for text != "" {
		if text[0] == '"' {
			quoted, rest, ok := strings.Cut(text[1:], `"`)
			if !ok {
				return nil, errors.New("quote without end")
			}
			out, text = append(out, quoted...), rest
			continue
		}
		digits, rest, _ := strings.Cut(text, `"`)
		if len(rest) > 0 || strings.HasSuffix(text, `"`) {
			rest = `"` + rest
		}
		digits = strings.NewReplacer(" ", "", "|", "").Replace(digits)
		p, err := hex.DecodeString(digits)
		if err != nil {
			return nil, err
		}
		out, text = append(out, p...), rest
	}
	return out, nil
}

// scripted runs a test in a bubble, once for each version.
func scripted(t *testing.T, test func(t *testing.T, v lite.Version), vs ...lite.Version) {
	t.Helper()
	for _, v := range vs {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, v) })
		})
	}
}

// server returns a peer of a relay's server side, with the opening done: what
// both sides say first.
func server(t *testing.T, v lite.Version) *script {
	t.Helper()
	s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
	s.opening(v)
	return s
}

// opening is what both sides say first. The peer's hop id is 7. Stream "ann" is
// the session's Announce stream.
func (s *script) opening(v lite.Version) {
	s.t.Helper()
	s.openingOf(v, "07")
}

// openingOf is opening for a peer with another hop id.
func (s *script) openingOf(v lite.Version, hop string) {
	s.t.Helper()
	if v.HasSetup() {
		s.run(`
			accept uni setup
			setup want 01 | 04 01 05 01 0a   # SETUP, one parameter: Hop 10
			setup want fin
			open uni mine
			mine write 01 | 04 01 05 01 ` + hop + `   # Hop
			mine fin
		`)
	}
	s.run("accept bidi ann")
	if v.HasExcludeHop() {
		s.run("ann want 01 | 02 00 0a  # prefix \"\", exclude hop 10")
	} else {
		s.run("ann want 01 | 01 00     # prefix \"\"")
	}
}

// local is a publisher in the relay's own process, driven by the test.
type local struct {
	mu        sync.Mutex
	producers []*model.Producer
	info      model.Info
	silent    bool // it does not answer
}

func (l *local) Pull(p *model.Producer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.producers = append(l.producers, p)
	if !l.silent {
		p.Accept(l.info)
	}
}

// producer waits for the n-th request.
func (l *local) producer(t *testing.T, n int) *model.Producer {
	t.Helper()
	for range 1000 {
		synctest.Wait()
		l.mu.Lock()
		ok := len(l.producers) > n
		l.mu.Unlock()
		if ok {
			return l.producers[n]
		}
		advance(10 * time.Millisecond)
	}
	t.Fatalf("request %d did not come", n)
	return nil
}

// publisher announces path in the relay, from hop 3.
func (s *script) publisher(path model.Path) (*local, *model.Announcement) {
	l := &local{info: model.Info{Priority: 2, MaxAge: 5 * time.Second, Timescale: 1000}}
	return l, s.origin.Announce(model.Route{Path: path, Hops: []uint64{3}, Warm: 1, Cold: 2, Source: l})
}

// group publishes one whole group with one-frame payloads at timestamps 1000, 1040, ...
func group(t *testing.T, p *model.Producer, seq uint64, payloads ...string) {
	t.Helper()
	var frames []frame
	for i, text := range payloads {
		frames = append(frames, frame{1000 + 40*int64(i), []byte(text)})
	}
	if err := publishGroup(t.Context(), p, seq, frames); err != nil {
		t.Fatal(err)
	}
}

// within returns a context of 30 seconds of the bubble's time.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// next waits for the next group of a subscription.
func next(t *testing.T, sub *model.Subscription) *model.Reader {
	t.Helper()
	r, err := sub.Next(within(t))
	if err != nil {
		t.Fatalf("no group came: %v", err)
	}
	return r
}

// advance lets so much of a synctest bubble's time pass.
func advance(d time.Duration) { <-time.After(d) }
