package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// mesh is a number of origins joined by links in memory, which do what a session of
// moq-lite-07 does: tell each other's routes, without those that lead through the
// other, with a hop, a cost and an epoch; and ask for tracks.
type mesh struct {
	t      *testing.T
	random *rand.Rand
	nodes  []*meshNode
	links  map[[2]int]*meshLink // by the nodes, the smaller first; those that are up
	late   time.Duration        // the longest that news takes over a link
	notice time.Duration        // the longest until the loss of a link is noticed
	told   messages
	tasks  sync.WaitGroup
}

// messages counts what was announced over links.
type messages struct {
	mu                          sync.Mutex
	start, update, restart, end int
}

func (m *messages) all() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start + m.update + m.restart + m.end
}

func (m *messages) String() string {
	return fmt.Sprintf("%d START, %d UPDATE, %d RESTART, %d END", m.start, m.update, m.restart, m.end)
}

type meshNode struct {
	mesh *mesh
	i    int
	o    *Origin
}

// meshLink joins two nodes.
type meshLink struct {
	ctx    context.Context
	cut    context.CancelCauseFunc
	tasks  sync.WaitGroup
	a, b   *meshEnd
	pulled sync.Mutex
}

// meshEnd is what one node has of the other: the source of its routes.
type meshEnd struct {
	link  *meshLink
	at    *meshNode
	peer  *meshNode
	other *meshEnd
	price uint64
	heard map[Path]*Announcement
}

var errCut = errors.New("the link was cut")

func newMesh(t *testing.T, n int, seed uint64) *mesh {
	m := &mesh{t: t, random: rand.New(rand.NewPCG(seed, 99)), links: make(map[[2]int]*meshLink), late: 10 * time.Millisecond, notice: 50 * time.Millisecond}
	for i := range n {
		m.nodes = append(m.nodes, &meshNode{mesh: m, i: i, o: NewOrigin(Config{ID: uint64(1000 + i)})})
	}
	return m
}

// shapes are the meshes that are tried, as pairs of nodes.
func shapes() map[string][][2]int {
	all := make(map[string][][2]int)
	for _, n := range []int{3, 5, 8} {
		var chain, full [][2]int
		for i := range n {
			if i > 0 {
				chain = append(chain, [2]int{i - 1, i})
			}
			for j := range i {
				full = append(full, [2]int{j, i})
			}
		}
		all[fmt.Sprintf("chain of %d", n)] = chain
		all[fmt.Sprintf("full mesh of %d", n)] = full
		if n > 3 { // of three it is a full mesh
			all[fmt.Sprintf("ring of %d", n)] = append(chain[:n-1:n-1], [2]int{0, n - 1})
		}
	}
	return all
}

func sizeOf(pairs [][2]int) int {
	n := 0
	for _, p := range pairs {
		n = max(n, p[0]+1, p[1]+1)
	}
	return n
}

// join makes a link where there is none.
func (m *mesh) join(pair [2]int) {
	if m.links[pair] != nil {
		return
	}
	l := &meshLink{}
	l.ctx, l.cut = context.WithCancelCause(m.t.Context())
	a, b := m.nodes[pair[0]], m.nodes[pair[1]]
	l.a = &meshEnd{link: l, at: a, peer: b, price: 1, heard: make(map[Path]*Announcement)}
	l.b = &meshEnd{link: l, at: b, peer: a, price: 1, heard: make(map[Path]*Announcement)}
	l.a.other, l.b.other = l.b, l.a
	m.links[pair] = l
	for _, e := range []*meshEnd{l.a, l.b} {
		wait := make([]time.Duration, 64)
		for i := range wait {
			wait[i] = time.Duration(m.random.Int64N(int64(m.late)))
		}
		notice := time.Duration(m.random.Int64N(int64(m.notice)))
		l.tasks.Go(func() { e.hear(wait, notice) })
	}
}

// cut ends a link without a word. Each side notices when it does.
func (m *mesh) cut(pair [2]int) {
	if l := m.links[pair]; l != nil {
		delete(m.links, pair)
		l.cut(errCut)
		m.tasks.Go(l.tasks.Wait)
	}
}

// news is what was sent over a link.
type news struct {
	due     time.Time
	changes []Change
}

// hear follows what the peer tells, a little later, and loses it all in the end.
func (e *meshEnd) hear(wait []time.Duration, notice time.Duration) {
	sent := make(chan news, 10000)
	var teller sync.WaitGroup
	teller.Go(func() { e.other.tell(sent, wait) })
	for n := range sent {
		select {
		case <-time.After(time.Until(n.due)):
		case <-e.link.ctx.Done():
			continue
		}
		if e.link.ctx.Err() == nil {
			for _, c := range n.changes {
				e.take(c)
			}
		}
	}
	teller.Wait()
	advance(notice)
	for _, a := range e.heard {
		a.Lose()
	}
}

// tell sends what this end's node shows the peer.
func (e *meshEnd) tell(sent chan<- news, wait []time.Duration) {
	defer close(sent)
	w := e.at.o.Watch("", Peer{ID: e.peer.o.ID(), Source: e})
	defer w.Close()
	due := time.Now()
	for i := 0; ; i++ {
		changes, err := w.Next(e.link.ctx)
		if err != nil {
			return
		}
		if at := time.Now().Add(wait[i%len(wait)]); at.After(due) {
			due = at
		}
		sent <- news{due, changes}
	}
}

// take does what a session does with an announcement.
func (e *meshEnd) take(c Change) {
	count := &e.at.mesh.told
	count.mu.Lock()
	defer count.mu.Unlock()
	before := e.heard[c.Path]
	hops := append(append([]uint64(nil), c.Route.Hops...), e.peer.o.ID())
	warm := min(c.Route.Warm+e.price, MaxCost)
	switch {
	case c.Kind == Ended:
		count.end++
		before.Withdraw()
		delete(e.heard, c.Path)
	case c.Kind == Updated && before.route.Epoch == c.Route.Epoch:
		count.update++
		before.Update(hops, warm, MaxCost) // 07 has one cost
	default:
		e.heard[c.Path] = e.at.o.Announce(Route{Path: c.Path, Hops: hops, Warm: warm, Cold: MaxCost, Epoch: c.Route.Epoch, Source: e})
		if before == nil {
			count.start++
			break
		}
		count.restart++
		before.Withdraw()
	}
}

// Pull asks the peer for a track.
func (e *meshEnd) Pull(p *Producer) {
	e.link.pulled.Lock()
	defer e.link.pulled.Unlock()
	if e.link.ctx.Err() != nil {
		p.Fail(ErrSourceGone)
		return
	}
	e.link.tasks.Go(func() {
		err := e.pull(p)
		switch {
		case e.link.ctx.Err() != nil:
			p.Fail(ErrSourceGone)
		case err == io.EOF:
			p.Close()
		case errors.Is(err, ErrSourceGone), errors.Is(err, ErrUnroutable): // as of a link between relays
			p.Fail(ErrSourceGone)
		default:
			p.Fail(&AbortError{Code: 1})
		}
	})
}

func (e *meshEnd) pull(p *Producer) error {
	ctx, cancel := context.WithCancelCause(e.link.ctx)
	defer cancel(nil)
	e.link.tasks.Go(func() {
		select {
		case <-p.Done():
			cancel(ErrCancelled)
		case <-ctx.Done():
		}
	})
	advance(e.at.mesh.late / 2)
	peer := Peer{ID: e.at.o.ID(), Source: e.other}
	if epoch := p.Epoch(); epoch != [16]byte{} && e.peer.o.Epoch(p.Path(), peer) != epoch {
		return ErrUnroutable
	}
	sub, err := e.peer.o.Subscribe(p.Path(), p.Track(), peer, wishes(p))
	if err != nil {
		return err
	}
	defer sub.Close()
	info, err := sub.Info(ctx)
	if err != nil {
		return err
	}
	p.Accept(info)
	e.link.tasks.Go(func() {
		for {
			changed := p.Changed()
			sub.Update(wishes(p))
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	})
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			return err
		}
		e.link.tasks.Go(func() { copyGroup(ctx, p, r) })
	}
}

func wishes(p *Producer) Options {
	prefs := p.Preferences()
	o := Options{MaxLatency: time.Hour, End: prefs.End, HasEnd: prefs.HasEnd, Passive: false}
	if prefs.HasStart {
		o.Start = Start{StartGroup, prefs.Start}
	}
	return o
}

// copyGroup passes one group of one-byte frames on.
func copyGroup(ctx context.Context, p *Producer, r *Reader) {
	defer r.Close()
	w, err := p.Group(r.Sequence(), Window{})
	if err != nil {
		return
	}
	for {
		b, err := r.Next(ctx)
		if err == io.EOF {
			_ = w.Finish()
			return
		}
		if err == nil {
			r.Taken(len(b))
			for ; len(b) >= 6 && err == nil; b = b[6:] {
				err = w.WriteFrame(ctx, b[:5], 0, b[5:6])
			}
		}
		if err != nil {
			w.Abort(err)
			return
		}
	}
}

// crowd is a publisher: what it sends names it.
type crowd struct {
	name byte
	ctx  context.Context
	gone chan struct{}
	task sync.WaitGroup
	mu   sync.Mutex
}

func (c *crowd) Pull(p *Producer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gone:
		p.Fail(ErrSourceGone)
		return
	default:
	}
	c.task.Go(func() {
		p.Accept(anyInfo)
		first := uint64(time.Now().UnixMilli() / 50)
		if prefs := p.Preferences(); prefs.HasStart {
			first = max(first, prefs.Start)
		}
		for seq := first; ; seq++ {
			if w, err := p.Group(seq, Window{}); err == nil {
				_ = w.WriteFrame(c.ctx, head(1), 0, []byte{c.name})
				_ = w.Finish()
			}
			select {
			case <-time.After(time.Until(time.UnixMilli(int64(seq+1) * 50))):
			case <-p.Done():
				return
			case <-c.gone:
				p.Fail(ErrSourceGone)
				return
			}
		}
	})
}

// standing is a publisher at its node.
type standing struct {
	*crowd
	node  *meshNode
	route *Announcement
}

// publish lets a publisher come to a node.
func (m *mesh) publish(i int, path Path, name byte) *standing {
	c := &crowd{name: name, ctx: m.t.Context(), gone: make(chan struct{})}
	n := m.nodes[i]
	return &standing{c, n, n.o.Announce(Route{Path: path, Hops: []uint64{uint64(name)}, Warm: 1, Cold: 1, Source: c})}
}

// leave takes it away: with a word or without.
func (s *standing) leave(cleanly bool) {
	if cleanly {
		s.route.Withdraw()
	} else {
		s.route.Lose()
	}
	s.mu.Lock()
	close(s.gone)
	s.mu.Unlock()
	s.task.Wait()
}

// settle lets the mesh come to rest.
func settle() {
	advance(time.Second)
	synctest.Wait()
}

// visit asks a node for a path and returns the name of who is seen there.
func (m *mesh) visit(i int, path Path) (name byte, err error) {
	sub, err := m.nodes[i].o.Subscribe(path, "video", Peer{}, Options{MaxLatency: time.Hour})
	if err != nil {
		return 0, err
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(m.t.Context(), 4*time.Second)
	defer cancel()
	r, err := sub.Next(ctx)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	b, err := r.Next(ctx)
	if err != nil {
		return 0, err
	}
	return b[5], nil
}

// circles counts the requests that come back to where they were made.
func (m *mesh) circles() int {
	found := 0
	for _, n := range m.nodes {
		for _, t := range n.o.allTracks() {
			seen := map[*track]bool{}
			for t != nil && !seen[t] {
				seen[t] = true
				t = t.upstream()
			}
			if t != nil {
				found++
			}
		}
	}
	return found
}

// upstream is the track of the next node that feeds this one.
func (t *track) upstream() *track {
	t.mu.Lock()
	p, stopped := t.producer, t.stopped
	t.mu.Unlock()
	if p == nil || stopped {
		return nil
	}
	e, ok := p.source.(*meshEnd)
	if !ok || e.link.ctx.Err() != nil {
		return nil
	}
	for _, u := range e.peer.o.allTracks() {
		if u.path != t.path || u.name != t.name {
			continue
		}
		u.mu.Lock()
		feeds := false
		for s := range u.subs {
			feeds = feeds || s.peer.Source == Source(e.other) && s.err == nil
		}
		u.mu.Unlock()
		if feeds {
			return u
		}
	}
	return nil
}

// close ends everything and wants nothing left.
func (m *mesh) close() {
	for pair := range m.links {
		m.cut(pair)
	}
	m.tasks.Wait()
	advance(time.Minute)
	synctest.Wait()
	for _, n := range m.nodes {
		o := n.o
		left := o.Stats().Routes.Load() + o.Stats().Broadcasts.Load() + o.Stats().Tracks.Load() + o.Stats().Subscriptions.Load()
		if left += int64(len(o.tracks) + len(o.parked) + len(o.contents) + len(o.root.below)); left != 0 {
			m.t.Errorf("node %d has %d routes, tracks and paths left", n.i, left)
		}
	}
}
