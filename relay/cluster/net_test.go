package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// mesh is relays that reach each other by addresses, in memory. It is for use inside
// a synctest bubble.
type mesh struct {
	t *testing.T

	mu      sync.Mutex
	names   map[string][]string // what the resolver answers; nil: an error
	relays  map[string]*relay   // by HOST:PORT; missing: nobody answers
	dials   []string            // every dial's address in order
	dialled []time.Duration     // when, since the start
	begun   time.Time
	slow    func() time.Duration // until a relay is met
	busy    bool                 // whether sessions have something asked for
}

// relay is one of a mesh.
type relay struct {
	*Cluster
	m    *mesh
	id   uint64
	at   string
	stop context.CancelFunc
	logs bytes.Buffer // guarded by m.mu

	// guarded by m.mu
	frozen bool        // its connections are never closed: it has died
	links  []*fakeLink // sessions that run
	closed int         // sessions that have ended
}

// fakeLink is a session as the runner of sessions sees it.
type fakeLink struct {
	Link
	remote uint64 // the hop id of the other side
	end    context.CancelCauseFunc
}

func newMesh(t *testing.T) *mesh {
	return &mesh{
		t: t, names: make(map[string][]string), relays: make(map[string]*relay), begun: time.Now(),
		slow: func() time.Duration { return time.Millisecond },
	}
}

// LookupNetIP implements Resolver.
func (m *mesh) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	texts, ok := m.names[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out, nil
}

// name has the resolver answer for a host from now on; without addresses with none.
func (m *mesh) name(host string, addresses ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[host] = addresses
}

// start adds a relay that answers at an address, and runs it.
func (m *mesh) start(id uint64, at string, change func(*Config)) *relay {
	r := &relay{m: m, id: id, at: at}
	cfg := Config{
		ID: id, Node: fmt.Sprint("node-", id), Resolver: m, Dial: m.dialFrom(r), Serve: r.serve,
		Peers: []string{"dns+https://peers:4444"}, Log: slog.New(slog.NewTextHandler(logWriter{r}, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	r.Cluster = New(cfg)
	m.mu.Lock()
	m.relays[at] = r
	m.mu.Unlock()
	ctx, stop := context.WithCancel(m.t.Context())
	r.stop = stop
	go func() { _ = r.Run(ctx) }()
	synctest.Wait()
	return r
}

// logWriter keeps a relay's log.
type logWriter struct{ r *relay }

func (w logWriter) Write(p []byte) (int, error) {
	w.r.m.mu.Lock()
	defer w.r.m.mu.Unlock()
	return w.r.logs.Write(p)
}

// crash takes a relay away without a word, as far as anyone can tell.
func (m *mesh) crash(r *relay) {
	m.mu.Lock()
	delete(m.relays, r.at)
	m.mu.Unlock()
	r.stop()
	synctest.Wait()
}

// die takes a relay away so that nobody notices.
func (m *mesh) die(r *relay) {
	m.mu.Lock()
	r.frozen = true
	m.mu.Unlock()
	m.crash(r)
}

func (m *mesh) dialFrom(from *relay) func(context.Context, Address) (transport.Conn, error) {
	return func(ctx context.Context, to Address) (transport.Conn, error) {
		m.mu.Lock()
		m.dials = append(m.dials, to.HostPort)
		m.dialled = append(m.dialled, time.Since(m.begun))
		target := m.relays[to.HostPort]
		m.mu.Unlock()
		if target == nil {
			return nil, errors.New("nobody answers")
		}
		client, server := transport.Pipe(transport.PipeConfig{Protocol: "x", Path: fmt.Sprint(from.id)})
		go target.Accept(server)
		return taggedConn{client, target.id}, nil
	}
}

// taggedConn knows whom it leads to.
type taggedConn struct {
	transport.Conn
	id uint64
}

// serve runs a session: after a while both sides know each other.
func (r *relay) serve(ctx context.Context, conn transport.Conn, link Link) error {
	ctx, end := context.WithCancelCause(ctx)
	l := &fakeLink{Link: link, end: end}
	if tagged, ok := conn.(taggedConn); ok {
		l.remote = tagged.id
	} else {
		_, _ = fmt.Sscan(conn.Info().Path, &l.remote)
	}
	r.m.mu.Lock()
	r.links = append(r.links, l)
	wait := time.After(r.m.slow())
	r.m.mu.Unlock()
	link.Began(func() bool { r.m.mu.Lock(); defer r.m.mu.Unlock(); return r.m.busy })
	defer func() {
		end(nil)
		r.m.mu.Lock()
		if !r.frozen {
			defer conn.Close(0, "")
		}
		r.links = slices.DeleteFunc(r.links, func(other *fakeLink) bool { return other == l })
		r.closed++
		r.m.mu.Unlock()
	}()
	select {
	case <-wait:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-conn.Done():
		return conn.Err()
	}
	if err := link.Met(l.remote); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-conn.Done():
		return conn.Err()
	}
}

// sessions are the sessions that run at a relay.
func (r *relay) sessions() []*fakeLink {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return slices.Clone(r.links)
}

func (r *relay) log() string {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return r.logs.String()
}

// takeDials returns the addresses that were dialled since the last call.
func (m *mesh) takeDials() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.dials
	m.dials, m.dialled = nil, nil
	slices.Sort(out)
	return out
}

// advance lets fake time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantWhole fails the test unless each relay has exactly one session with each other.
func wantWhole(t *testing.T, relays ...*relay) {
	t.Helper()
	for _, r := range relays {
		want := make(map[uint64]int)
		for _, other := range relays {
			if other != r {
				want[other.id] = 1
			}
		}
		got := make(map[uint64]int)
		for _, l := range r.sessions() {
			got[l.remote]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("relay %d has sessions %v, want %v\n%s", r.id, got, want, r.log())
		}
		s := r.Status()
		if s.Expected != len(relays)-1 || s.Connected != s.Expected {
			t.Errorf("relay %d: %d of %d connected, want %d: %+v", r.id, s.Connected, s.Expected, len(relays)-1, s.Peers)
		}
	}
}

// shuffled returns the numbers from 1 to n in random order.
func shuffled(n int) []uint64 {
	ids := make([]uint64, n)
	for i, at := range rand.Perm(n) {
		ids[at] = uint64(i + 1)
	}
	return ids
}
