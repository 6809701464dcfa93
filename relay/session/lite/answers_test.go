package lite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// A whim is how a publisher answers one request for a track.
type whim int

const (
	accepts whim = iota // and leaves it open
	refuses             // with NOT_FOUND
	ends                // after one group
	silent              // it never answers
	whims
)

// fickle publishes "cam" and answers by whim, each request once.
type fickle struct {
	*script
	v     lite.Version
	rng   *rand.Rand
	mu    sync.Mutex
	turns int
	live  map[*scriptStream]string // Subscribe streams that it has not ended, with their tracks
}

// answer answers the requests that have come so far.
func (f *fickle) answer() {
	synctest.Wait()
	for {
		select {
		case st := <-f.waiting["bidi"]:
			wish, delay := whim(f.rng.IntN(int(whims))), time.Duration(f.rng.IntN(200))*time.Millisecond
			f.bench.tasks.Go(func() { f.serve(st, wish, delay) })
		default:
			synctest.Wait()
			f.wantOneEach()
			return
		}
	}
}

// wantOneEach checks that the relay asks for each track once at a time.
func (f *fickle) wantOneEach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	open := map[string]int{}
	for st, track := range f.live {
		if st.ending() == nil {
			open[track]++
		}
		if open[track] > 1 {
			f.t.Errorf("%q is subscribed to %d times at once", track, open[track])
		}
	}
}

// serve answers one stream after some time.
func (f *fickle) serve(st *scriptStream, wish whim, delay time.Duration) {
	in := wire.NewStreamReader(bytes.NewReader(st.bytes()), 1<<16)
	typ, _ := in.Varint("type")
	body, _ := in.Message()
	switch lite.BidiType(typ) {
	case lite.BidiTrack:
		advance(delay)
		f.serveTrack(st, wish)
	case lite.BidiFetch:
		advance(delay)
		f.serveFetch(st, wish)
	case lite.BidiSubscribe:
		msg, err := lite.DecodeSubscribe(body, f.v)
		if err != nil {
			f.t.Error(err)
			return
		}
		f.mu.Lock()
		f.live[st] = msg.Track
		f.mu.Unlock()
		advance(delay)
		if f.serveSubscribe(st, msg, wish); wish == refuses || wish == ends {
			f.mu.Lock()
			delete(f.live, st)
			f.mu.Unlock()
		}
	default:
		f.t.Errorf("a stream of type %d", typ)
	}
}

func (f *fickle) serveTrack(st *scriptStream, wish whim) {
	switch wish {
	case silent:
	case refuses:
		st.send.Reset(uint64(lite.StreamNotFound))
	default:
		info := lite.TrackInfo{MaxAge: 5000, Timescale: 1000}
		b, _ := info.Append(nil, f.v)
		_, _ = st.send.Write(b)
		_ = st.send.Close()
	}
}

// serveFetch answers with one frame of one byte.
func (f *fickle) serveFetch(st *scriptStream, wish whim) {
	switch wish {
	case silent:
	case refuses:
		st.send.Reset(uint64(lite.StreamNotFound))
	default:
		_, _ = st.send.Write([]byte{0, 1, 7})
		advance(time.Duration(f.delay()) * time.Millisecond)
		if wish == accepts {
			st.send.Reset(uint64(lite.StreamEvicted)) // after all
			return
		}
		_ = st.send.Close()
	}
}

// delay is some milliseconds more.
func (f *fickle) delay() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns++
	return f.turns % 5 * 100
}

func (f *fickle) serveSubscribe(st *scriptStream, msg *lite.Subscribe, wish whim) {
	if wish == refuses {
		st.send.Reset(uint64(lite.StreamNotFound))
		return
	}
	if wish == silent {
		return
	}
	if !f.v.HasSubscribeEnd() {
		b, _ := (&lite.SubscribeOK{}).Append(nil, f.v)
		_, _ = st.send.Write(b)
	}
	if wish != ends {
		return
	}
	g, err := f.conn.OpenSendStream(f.bench.ctx)
	if err != nil {
		return
	}
	b, _ := (&lite.Group{SubscribeID: msg.ID}).Append([]byte{0}, f.v)
	_, _ = g.Write(b)
	_ = g.Close()
	if f.v.HasSubscribeEnd() {
		b, _ := (&lite.SubscribeOK{Group: 0}).Append(nil, f.v)
		b, _ = (&lite.SubscribeEnd{Group: 1}).Append(b, f.v)
		_, _ = st.send.Write(b)
	}
	_ = st.send.Close()
}

func (st *scriptStream) bytes() []byte {
	st.mu.Lock()
	defer st.mu.Unlock()
	return bytes.Clone(st.got)
}

func (st *scriptStream) ending() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.end
}

// asker opens requests for a few tracks and gives some of them up.
type asker struct {
	*script
	v    lite.Version
	rng  *rand.Rand
	next uint64
	all  []*asked
}

// asked is one request.
type asked struct {
	*scriptStream
	typ  lite.BidiType
	text string
	left bool // we have ended our half
	gone bool // we have stopped the session's half
}

func (a *asker) ask() {
	track := fmt.Sprint("track", a.rng.IntN(3))
	broadcast := "cam"
	if a.rng.IntN(8) == 0 {
		broadcast = "nowhere"
	}
	st, err := a.conn.OpenStream(a.bench.ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	req := &asked{scriptStream: a.newStream(st, st), typ: lite.BidiSubscribe}
	var b []byte
	switch kind := a.rng.IntN(4); {
	case a.v.HasTrack() && kind == 0:
		req.typ = lite.BidiTrack
		b, err = (&lite.Track{Broadcast: broadcast, Track: track}).Append([]byte{byte(req.typ)}, a.v)
	case a.v.ServesFetch() && kind == 1:
		req.typ = lite.BidiFetch
		b, err = (&lite.Fetch{Broadcast: broadcast, Track: track, Group: uint64(a.rng.IntN(3))}).Append([]byte{byte(req.typ)}, a.v)
	default:
		msg := lite.Subscribe{ID: a.next, Broadcast: broadcast, Track: track}
		msg.Priority = uint8(a.rng.IntN(256))
		a.next++
		b, err = msg.Append([]byte{byte(req.typ)}, a.v)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	req.text = fmt.Sprintf("%v %d of %q %q", req.typ, len(a.all), broadcast, track)
	if _, err := st.Write(b); err != nil {
		a.t.Fatal(err)
	}
	if req.typ != lite.BidiSubscribe {
		_ = st.Close()
		req.left = true
	}
	a.all = append(a.all, req)
}

// leave gives one request up, in one of the ways there are.
func (a *asker) leave(req *asked) {
	if req.typ != lite.BidiSubscribe && !req.gone {
		req.gone = true
		req.recv.Stop(uint64(lite.StreamCancelled))
	}
	if req.left {
		return
	}
	req.left = true
	switch a.rng.IntN(3) {
	case 0:
		_ = req.send.Close()
	case 1:
		req.send.Reset(uint64(lite.StreamCancelled))
	default:
		req.send.Reset(uint64(lite.StreamCancelled))
		req.recv.Stop(uint64(lite.StreamCancelled))
	}
}

// check says what is wrong with the answer to a request, once all is over.
func (a *asker) check(req *asked) error {
	end := req.ending()
	in := wire.NewStreamReader(bytes.NewReader(req.bytes()), 1<<16)
	if end == nil {
		return fmt.Errorf("no answer")
	}
	if ended, ok := errors.AsType[*transport.StreamError](end); ok && !ended.Remote {
		return nil // given up before there was one
	}
	if req.typ == lite.BidiTrack {
		_, err := in.Message()
		if (end == io.EOF) != (err == nil) {
			return fmt.Errorf("TRACK_INFO: %v, and the stream ended with %v", err, end)
		}
		return in.End()
	}
	if req.typ == lite.BidiFetch {
		if got := req.bytes(); end == io.EOF && len(got) != 0 && !bytes.Equal(got, []byte{0, 1, 7}) {
			return fmt.Errorf("the group is %x, want one frame of one byte, or none", got)
		}
		return nil
	}
	oks := 0
	for {
		msg, err := lite.ReadResponse(in, a.v)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if _, ok := msg.(*lite.SubscribeOK); ok {
			oks++
		}
	}
	if oks > 1 || end == io.EOF && !req.left && oks == 0 {
		return fmt.Errorf("accepted %d times, end %v", oks, end)
	}
	return nil
}

// Whatever viewers and publishers do, each request is answered, and once.
func TestEveryRequestGetsExactlyOneAnswer(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wantOneAnswerEach(t, seed) })
		})
	}
}

func wantOneAnswerEach(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	v, w := versions[rng.IntN(len(versions))], versions[rng.IntN(len(versions))]
	viewer := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false)
	viewer.openingOf(v, "08")
	publisher := newScript(t, w, Config{Origin: viewer.origin}, transport.PipeConfig{HasURI: true}, false)
	publisher.openingOf(w, "07")
	publisher.announceCam(w)

	a := &asker{script: viewer, v: v, rng: rng}
	f := &fickle{script: publisher, v: w, rng: rng, live: map[*scriptStream]string{}}
	for range 60 {
		switch rng.IntN(4) {
		case 0, 1:
			a.ask()
		case 2:
			if len(a.all) > 0 {
				a.leave(a.all[rng.IntN(len(a.all))])
			}
		default:
			advance(time.Duration(rng.IntN(2000)) * time.Millisecond)
		}
		f.answer()
	}
	for range 20 { // the upstream's silence has a bound, and so has every request
		advance(time.Second)
		f.answer()
	}
	for _, req := range a.all {
		if req.typ == lite.BidiSubscribe {
			a.leave(req)
		}
	}
	for range 20 {
		advance(time.Second)
		f.answer()
	}
	viewer.run("alive")
	publisher.run("alive")
	for _, req := range a.all {
		if err := a.check(req); err != nil {
			t.Errorf("%s from %s to %s: %v", req.text, v, w, err)
		}
	}
	if n, m := viewer.session.Stats().Requests, publisher.session.Stats().Pulls; n != 0 || m != 0 {
		t.Errorf("%d requests and %d pulls are left of %d requests", n, m, len(a.all))
	}
}
