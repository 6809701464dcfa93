package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/transport"
)

// Config is what a [Cluster] is made from.
type Config struct {
	// Node is the configured name of this process, for the status. ID is its hop id.
	Node string
	ID   uint64
	// Peers are the peer ports of the mesh, dns+https://HOST:PORT each.
	Peers []string
	// Upstreams are those to begin with. UpstreamsFile has more of them and is
	// followed; empty: there is none.
	Upstreams     []config.Upstream
	UpstreamsFile string
	// Resolver answers for names; nil: the system's.
	Resolver Resolver
	// Dial opens a connection. Required where there is something to dial.
	Dial func(ctx context.Context, to Address) (transport.Conn, error)
	// Serve runs a session until it ends or ctx is done. Required.
	Serve func(ctx context.Context, conn transport.Conn, link Link) error
	// Log receives what happens to neighbours; nil discards it.
	Log *slog.Logger
}

// Kind says what a neighbour is.
type Kind string

// The kinds.
const (
	// Peer is a relay with the same TLS key.
	Peer Kind = "peer"
	// Upstream is the client port of a relay elsewhere.
	Upstream Kind = "upstream"
)

// Address is what is dialled.
type Address struct {
	Kind Kind
	// HostPort is IP:PORT, or HOST:PORT of an upstream that was given without dns+.
	HostPort string
	// ServerName is the name that its certificate must have; peers' names do not count.
	ServerName string
}

// Link is what the runner of a session is told, and tells.
type Link struct {
	Kind Kind
	// Dialled is true where this relay opened the connection.
	Dialled bool
	// RequestPath is what an upstream is asked for, with its query.
	RequestPath string
	// Price is the cost of the link as configured; nil: what the other side says.
	Price *uint64
	// Met is to be called once when the other's hop id is known, 0 where it has
	// none. An error ends the session, without fault of the other side.
	Met func(hop uint64) error
	// Goaway is to be called when the other side says that it leaves.
	Goaway func()
	// Began is to be called first, with what says whether anything is asked for over
	// the session now.
	Began func(busy func() bool)
}

// Cluster is the neighbours of one relay. Make it with [New] and run it with
// [Cluster.Run]; the other methods may be called from any goroutine meanwhile.
type Cluster struct {
	cfg   Config
	log   *slog.Logger
	tasks tasks
	ctx   context.Context // of everything; set by Run
	now   chan struct{}   // asks for a look at the lists

	dials map[Kind]*Dials
	file  upstreamsFile // of Run alone

	mu       sync.Mutex // guards the rest
	static   []config.Upstream
	more     []config.Upstream // of the file
	answers  map[string][]string
	targets  map[key]*target
	links    map[*link]struct{}
	linkLost chan struct{} // closed and replaced when a link ends
}

// Dials counts attempts to connect.
type Dials struct{ OK, Failed atomic.Int64 }

// Times of the dialling.
const (
	// lookEvery is how often names are resolved and the file of upstreams is read.
	lookEvery   = 5 * time.Second
	lookTimeout = 4 * time.Second
	dialTimeout = 10 * time.Second
	// A redial waits between half of the backoff and all of it. It begins anew after
	// a session that lasted for lastBackoff.
	firstBackoff = time.Second
	lastBackoff  = 10 * time.Second
	// settleTime is how long a session is given to show what is behind it, before the
	// one that it replaces is closed.
	settleTime = time.Second
	// leaveTime is the longest that a replaced session may have something asked for.
	leaveTime = 10 * time.Second
)

// New returns a cluster that has dialled nobody yet.
func New(cfg Config) *Cluster {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Resolver == nil {
		cfg.Resolver = systemResolver{}
	}
	return &Cluster{
		cfg: cfg, log: cfg.Log, static: cfg.Upstreams, now: make(chan struct{}, 1),
		dials:    map[Kind]*Dials{Peer: {}, Upstream: {}},
		file:     upstreamsFile{path: cfg.UpstreamsFile},
		answers:  make(map[string][]string),
		targets:  make(map[key]*target),
		links:    make(map[*link]struct{}),
		linkLost: make(chan struct{}),
	}
}

// NodeID is the hop id of a process of that name: 53 bits of its SHA-256, never 0.
func NodeID(node string) uint64 {
	sum := sha256.Sum256([]byte(node))
	return max(1, binary.BigEndian.Uint64(sum[:])>>11)
}

// Run looks for neighbours and dials them until ctx is done. It ends every session
// then, waits for all, and returns the cause.
func (c *Cluster) Run(ctx context.Context) error {
	c.begin(ctx)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.readFile()
		c.reconcile()
		c.resolve(ctx)
		c.reconcile()
		select {
		case <-tick.C:
		case <-c.now:
		case <-ctx.Done():
		}
	}
	c.tasks.Wait()
	return context.Cause(ctx)
}

func (c *Cluster) begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = ctx
}

// Update replaces the upstreams that the configuration names. Those that are not
// named any more are left as soon as nothing is asked for over them, at the latest
// after ten seconds.
func (c *Cluster) Update(upstreams []config.Upstream) {
	c.mu.Lock()
	c.static = upstreams
	c.mu.Unlock()
	select {
	case c.now <- struct{}{}:
	default: // asked already, and not looked yet
	}
}

// Accept runs the session of a relay that has dialled our peer port, until it ends.
// Before [Cluster.Run] and after its end it closes the connection.
func (c *Cluster) Accept(conn transport.Conn) {
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	if ctx == nil || ctx.Err() != nil {
		conn.Close(0, "")
		return
	}
	l := c.newLink(ctx, nil, conn)
	if !c.tasks.Go(l.run) {
		conn.Close(0, "")
		return
	}
	<-l.done
}

// Counts returns the attempts to reach neighbours of a kind.
func (c *Cluster) Counts(kind Kind) *Dials { return c.dials[kind] }

// tasks are the goroutines of a cluster.
type tasks struct {
	mu     sync.Mutex
	closed bool // Wait was called
	wg     sync.WaitGroup
}

// Go runs f, and reports false where nobody would wait for it any more.
func (t *tasks) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

// Wait waits for all that runs and lets nothing new begin.
func (t *tasks) Wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}
