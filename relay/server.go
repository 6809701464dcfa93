package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/auth"
	"github.com/moqrelay/operator/relay/cluster"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport/qmux"
)

// Options are what a [Server] is made from.
type Options struct {
	// Loaded is the configuration to start with. Required.
	Loaded *config.Loaded
	// Source is where it came from: its files are watched. The zero value watches nothing.
	Source config.Source
	// Version is the program's, for the status document.
	Version string
	// Log is where log lines go; nil discards them.
	Log io.Writer
	// Resolver answers for the names of other relays; nil: the system's.
	Resolver cluster.Resolver
}

// Server is one relay process.
type Server struct {
	cfg     config.Config
	source  config.Source
	loaded  *config.Loaded
	version string
	log     *slog.Logger
	logs    *logHandler
	started time.Time

	origin       *model.Origin
	certificates *certificates
	auth         *auth.Authorizer // nil: everyone may do everything
	peers        *peerGate
	cluster      *cluster.Cluster
	sessions     *sessions
	traffic      *traffic
	alive        admin.Liveness
	sockets      sockets
	qmux         qmux.Config
	handshakes   rate
	tenants      tenants
	fetches      fetches

	live      atomic.Pointer[config.LiveConfig]
	reloads   reloads
	ready     atomic.Bool
	draining  atomic.Bool
	drain     chan struct{} // closed by Drain
	drainOnce sync.Once
}

// New returns a server that has opened nothing yet. It fails when no certificate
// can be made; certificates that cannot be read are reported and waited for.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	cfg := o.Loaded.Config
	live := cfg.Live()
	s := &Server{
		cfg: cfg, source: o.Source, loaded: o.Loaded, version: o.Version,
		logs: newLogHandler(o.Log, live.Log), started: time.Now(), drain: make(chan struct{}),
	}
	s.log = slog.New(s.logs)
	s.reloads.loaded(o.Loaded)
	s.origin = model.NewOrigin(model.Config{
		Cache:     cacheConfig(live.Cache, memoryLimit(s.log)),
		PacingCap: int64(live.PacingCap),
		ID:        hopID(cfg.Cluster),
	})
	s.origin.SetLimits(modelLimits(live.Limits))
	s.traffic = newTraffic(append(tiers(cfg.Auth), linkTiers(cfg.Cluster)...)...)
	s.sessions = newSessions(s.traffic)
	s.live.Store(&live)
	s.tenants.setRate(int64(live.Limits.EgressBytesPerSecondPerTenant))
	var err error
	if s.certificates, err = newCertificates(cfg.TLS, s.log, s.reloads.countTLS); err != nil {
		return nil, err
	}
	if s.auth, err = newAuthorizer(cfg, s.log); err != nil {
		return nil, err
	}
	s.peers = &peerGate{keys: &s.certificates.keys, log: s.log}
	s.cluster = s.newCluster(o)
	return s, nil
}

// memoryLimit is what a percentage for the cache refers to.
func memoryLimit(log *slog.Logger) int64 {
	limit, err := config.MemoryLimit()
	if err != nil {
		log.Warn("cannot tell how much memory this process may use; the cache takes its share of 1 GiB: set cache.maxBytes in bytes", "error", err)
		return int64(config.GiB)
	}
	return limit
}

func cacheConfig(c config.Cache, limit int64) model.CacheConfig {
	size := c.MaxBytes
	if size == (config.Size{}) {
		size.Percent = 50
	}
	age := time.Duration(c.MaxAgeSeconds) * time.Second
	return model.CacheConfig{MaxBytes: size.Of(limit), MaxAge: max(age, 1)} // there 0 stands for the default
}

// Origin is what the relay holds. In-process publishers and viewers use it.
func (s *Server) Origin() *model.Origin { return s.origin }

// errDrained ends Run when the last session has left.
var errDrained = errors.New("drained")

// Run serves until ctx is done or a drain has ended, and returns nil then. Call
// it once, after [Server.Listen]. What breaks a listener is its error.
func (s *Server) Run(ctx context.Context) error {
	defer s.sockets.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.origin.Run(ctx) })
	group.Go(func() error { return s.beat(ctx) })
	group.Go(func() error { return s.certificates.run(ctx) })
	group.Go(func() error { return s.runAuth(ctx) })
	group.Go(func() error { return s.reload(ctx) })
	group.Go(func() error { return s.serveUDP(ctx) })
	group.Go(func() error { return s.serveTCP(ctx) })
	group.Go(func() error { return s.servePeers(ctx) })
	group.Go(func() error { return s.cluster.Run(ctx) })
	group.Go(func() error { return s.serveStatus(ctx) })
	group.Go(func() error { return s.runDrain(ctx) })
	err := group.Wait()
	s.sessions.closeAll()
	if errors.Is(err, errDrained) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// beat shows that timers fire and the UDP socket answers.
func (s *Server) beat(ctx context.Context) error {
	scheduler, socket := s.alive.Part("scheduler"), s.alive.Part("udp socket")
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			scheduler.Beat()
			if s.sockets.udp == nil {
				socket.Beat()
			} else if _, err := s.sockets.udp.Socket(); err == nil {
				socket.Beat()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Server) serveStatus(ctx context.Context) error {
	if s.sockets.status == nil {
		return nil
	}
	if err := admin.Serve(ctx, s.sockets.status, s.statusHandler()); err != nil {
		return fmt.Errorf("status port: %w", err)
	}
	return nil
}
