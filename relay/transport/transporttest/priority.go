package transporttest

import (
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

const (
	// raceBytes is how much one stream receives while another is watched.
	raceBytes = 2 << 20
	// racePinned is how much of the connection's window an unread stream holds, so
	// that the connection's credit, not a stream's, is what two others compete for.
	racePinned = 160 << 10
	// raceBehind is what the stream that gets nothing may still receive: what the
	// window let through before, and one more of it while priorities change hands.
	raceBehind = raceBytes / 10
)

// tight is a connection whose window is no larger than a stream's.
var tight = Options{Windows: transport.Windows{Stream: 256 << 10, Connection: 256 << 10}, MaxStreams: 128}

func testPriorities(t *testing.T, newPair NewPair) {
	for _, kind := range []struct {
		name string
		open func(p *peers) (transport.SendStream, transport.ReceiveStream)
	}{
		{"unidirectional", func(p *peers) (transport.SendStream, transport.ReceiveStream) {
			return p.sendStream(p.Server, p.Client)
		}},
		{"accepted bidirectional", func(p *peers) (transport.SendStream, transport.ReceiveStream) {
			ours, theirs := p.stream(p.Client, p.Server)
			p.write(theirs, []byte{'!'})
			p.wantRead(ours, []byte{'!'})
			return theirs, ours
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Run("the urgent stream goes first and an update acts while both write", func(t *testing.T) {
				r := newRace(connect(t, newPair, tight), kind.open)
				r.first.send.SetPriority(transport.Priority{Urgency: 5, Incremental: true})
				r.second.send.SetPriority(transport.Priority{Urgency: 1, Incremental: true})
				r.wantAhead("urgency 1 against 5", r.second, r.first, 0, raceBehind)
				r.first.send.SetPriority(transport.Priority{Urgency: 0})
				r.wantAhead("after the change to 0 against 1", r.first, r.second, 0, raceBehind)
				r.second.send.SetPriority(transport.Priority{Urgency: 6})
				r.first.send.SetPriority(transport.Priority{Urgency: 200}) // as 7
				r.wantAhead("after the change to 200 against 6", r.second, r.first, 0, raceBehind)
			})
			t.Run("incremental streams of one urgency take turns", func(t *testing.T) {
				r := newRace(connect(t, newPair, tight), kind.open)
				r.wantAhead("both as they begin", r.second, r.first, raceBytes/2, 2*raceBytes) // turns, not bytes
			})
			t.Run("the others of one urgency go in the order of opening", func(t *testing.T) {
				r := newRace(connect(t, newPair, tight), kind.open)
				for _, l := range []*lane{r.second, r.first} {
					l.send.SetPriority(transport.Priority{Urgency: 4})
				}
				r.wantAhead("both at 4, not incremental", r.first, r.second, 0, raceBehind)
			})
		})
	}
	testPriorityEdges(t, newPair)
}

func testPriorityEdges(t *testing.T, newPair NewPair) {
	t.Run("an urgent stream that its reader blocks holds no other up", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			var blocked sync.WaitGroup
			var streams []transport.SendStream
			for range 3 { // three of the four stream windows that the connection has
				s, _ := p.sendStream(from, to)
				s.SetPriority(transport.Priority{Urgency: 0})
				blocked.Go(func() { _, _ = s.Write(pattern(2 << 20)) })
				streams = append(streams, s)
			}
			ours, theirs := p.sendStream(from, to)
			ours.SetPriority(transport.Priority{Urgency: 7})
			write := start(func() (int, error) { return ours.Write(pattern(2 << 20)) })
			p.wantRead(theirs, pattern(2<<20))
			if r := p.result("Write", write); r.err != nil {
				p.t.Errorf("Write: %v", r.err)
			}
			for _, s := range streams {
				s.Reset(1)
			}
			blocked.Wait()
		})
	})
	t.Run("a priority for an ended stream does nothing", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		closed, theirs := p.sendStream(p.Client, p.Server)
		p.closeSend(closed)
		closed.SetPriority(transport.Priority{Urgency: 1})
		p.wantEOF(theirs)
		reset, _ := p.sendStream(p.Client, p.Server)
		reset.Reset(1)
		reset.SetPriority(transport.Priority{Urgency: 1})
		open, _ := p.sendStream(p.Client, p.Server)
		p.Client.Close(0, "")
		open.SetPriority(transport.Priority{Urgency: 1})
	})
	t.Run("priorities change from all sides while streams write", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		testPriorityStorm(p)
	})
}

// race is two streams of the server in one long Write each, both read without end, and
// a third that pins a part of the connection's window. So it is credit that decides
// who sends, and bytes that tell: how busy the machine is does not matter.
type race struct {
	p             *peers
	first, second *lane // in the order of opening
	mu            sync.Mutex
	moved         *sync.Cond
	watch         watch // guarded by mu
	over          bool  // guarded by mu
}

// watch is what somebody waits for.
type watch struct {
	leader, other *lane // nobody: it has come
	enough        int64 // of the leader
	got           int64 // of the other one, when the leader had enough
}

type lane struct {
	send    transport.SendStream
	receive transport.ReceiveStream
	bytes   int64 // read; guarded by race.mu
	ended   bool  // guarded by race.mu
}

// raceSlice is more than a stream gets through in a test.
var raceSlice = sync.OnceValue(func() []byte { return make([]byte, 8*raceBytes) })

// newRace returns when both streams are inside Write, since both have been read from.
func newRace(p *peers, open func(*peers) (transport.SendStream, transport.ReceiveStream)) *race {
	pin, _ := p.sendStream(p.Server, p.Client)
	p.write(pin, pattern(racePinned))
	r := &race{p: p, first: &lane{}, second: &lane{}}
	r.moved = sync.NewCond(&r.mu)
	var all sync.WaitGroup
	for _, l := range []*lane{r.first, r.second} {
		l.send, l.receive = open(p)
	}
	for _, l := range []*lane{r.first, r.second} {
		all.Go(func() { _, _ = l.send.Write(raceSlice()) })
		all.Go(func() { r.read(l) })
	}
	p.t.Cleanup(func() {
		r.mu.Lock()
		r.over = true
		r.moved.Broadcast()
		r.mu.Unlock()
		for _, l := range []*lane{r.first, r.second} {
			l.send.Reset(1)
			l.receive.Stop(1)
		}
		all.Wait()
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.begunLocked() {
		if r.first.ended || r.second.ended {
			p.t.Fatal("a stream ended before it began")
		}
		r.moved.Wait()
	}
	return r
}

// read reads until both streams have begun, then while somebody watches. When the leader
// has enough both streams rest, so that nothing depends on when the watcher wakes.
func (r *race) read(l *lane) {
	b := make([]byte, 16<<10)
	for r.mayRead(l) {
		n, err := l.receive.Read(b)
		r.mu.Lock()
		l.bytes += int64(n)
		l.ended = err != nil
		if w := &r.watch; w.leader == l && l.bytes >= w.enough {
			w.got, w.leader = w.other.bytes, nil
		}
		r.moved.Broadcast()
		begun := r.begunLocked()
		r.mu.Unlock()
		if !begun { // slowly, or the first would be through before the second starts
			<-time.After(time.Millisecond)
		}
	}
}

func (r *race) begunLocked() bool { return r.first.bytes > 0 && r.second.bytes > 0 }

func (r *race) mayRead(l *lane) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.begunLocked() && r.watch.leader == nil && !r.over {
		r.moved.Wait()
	}
	return !r.over && !l.ended
}

// wantAhead waits until the leader has received raceBytes more, and wants the other
// one to have received between least and most meanwhile.
func (r *race) wantAhead(what string, leader, other *lane, least, most int64) {
	r.p.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	before := other.bytes
	r.watch = watch{leader: leader, other: other, enough: leader.bytes + raceBytes}
	r.moved.Broadcast()
	for r.watch.leader != nil {
		if leader.ended {
			r.p.t.Fatalf("%s: the stream ended", what)
		}
		r.moved.Wait()
	}
	got := r.watch.got - before
	r.p.t.Logf("%s: %.2f %% of the other stream while one received %d bytes", what, 100*float64(got)/raceBytes, raceBytes)
	if got < least || got > most {
		r.p.t.Errorf("%s: %d bytes of the other stream came with %d of the leader, want %d to %d", what, got, raceBytes, least, most)
	}
}

// testPriorityStorm changes the priority of each of eight streams whenever its reader
// has got something, and wants every byte.
func testPriorityStorm(p *peers) {
	var all sync.WaitGroup
	for i := range 8 {
		ours, theirs := p.sendStream(p.Server, p.Client)
		all.Go(func() { writePieces(p, ours, pattern(256<<10)) })
		all.Go(func() { wantHash(p, &restless{theirs, ours, i}, pattern(256<<10)) })
	}
	all.Wait()
}

// restless changes the priority of the sending end with each Read.
type restless struct {
	transport.ReceiveStream
	send transport.SendStream
	n    int
}

func (r *restless) Read(b []byte) (int, error) {
	r.n++
	r.send.SetPriority(transport.Priority{Urgency: uint8(r.n * 5 % 8), Incremental: r.n%3 == 0})
	return r.ReceiveStream.Read(b)
}
