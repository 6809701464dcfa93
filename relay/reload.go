package relay

import (
	"context"
	"strings"
	"sync"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/status"
)

// reloads is which configuration is in force, and how often it changed.
type reloads struct {
	mu     sync.Mutex
	status status.Config
	config map[string]int64
	tls    map[string]int64
	now    chan struct{} // asks for a look at the files
}

func (r *reloads) loaded(l *config.Loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status.Config{Hash: l.Hash, LiveHash: l.LiveHash}
	r.config, r.tls, r.now = make(map[string]int64), make(map[string]int64), make(chan struct{}, 1)
}

func (r *reloads) countTLS(result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tls[result]++
}

// What became of a changed file, for metrics: admin.ConfigResults, admin.TLSResults.
const (
	reloadOK       = "ok"
	reloadRejected = "rejected"
	// reloadRestart: the live part is in force, something else waits for a restart.
	reloadRestart = "needs_restart"
)

// Reload reads configuration and certificates again now; changed ones are in
// force soon after. It returns at once.
func (s *Server) Reload() {
	s.log.Info("asked to read configuration, certificates and keys again")
	if s.auth != nil {
		s.auth.Reload()
	}
	for _, now := range []chan struct{}{s.reloads.now, s.certificates.now} {
		select {
		case now <- struct{}{}:
		default: // asked already, and not looked yet
		}
	}
}

// reload follows the configuration's files until ctx is done.
func (s *Server) reload(ctx context.Context) error {
	if s.source.File == "" && s.source.LiveFile == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	config.Watch(ctx, s.source, s.loaded, s.reloads.now, s.apply)
	return context.Cause(ctx)
}

// apply puts a changed configuration in force, or reports why it is not.
func (s *Server) apply(u config.Update) {
	if u.Err != nil {
		s.reloads.rejected(u.Err)
		s.log.Error("changed configuration is not in force, the one before stays; correct the file", "error", u.Err)
		return
	}
	s.use(&u.Live)
	s.reloads.accepted(u) // last: what is reported is in force
	s.log.Info("changed configuration is in force", "liveHash", u.LiveHash)
	if len(u.NeedsRestart) > 0 {
		s.log.Warn("some changed keys take effect only after a restart", "keys", strings.Join(u.NeedsRestart, " "))
	}
}

// use puts the live part of a configuration in force.
func (s *Server) use(live *config.LiveConfig) {
	s.logs.set(live.Log)
	s.origin.SetPacingCap(int64(live.PacingCap))
	s.origin.SetLimits(modelLimits(live.Limits))
	s.origin.SetCache(cacheConfig(live.Cache, memoryLimit(s.log)))
	s.useAuth(live.Auth)
	s.cluster.Update(live.Upstreams)
	s.tenants.setRate(int64(live.Limits.EgressBytesPerSecondPerTenant))
	s.live.Store(live)
}

func (r *reloads) rejected(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config[reloadRejected]++
	r.status.Rejected = err.Error()
}

func (r *reloads) accepted(u config.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(u.NeedsRestart) > 0 {
		r.config[reloadRestart]++
	} else {
		r.config[reloadOK]++
	}
	r.status.Rejected, r.status.LiveHash, r.status.NeedsRestart = "", u.LiveHash, u.NeedsRestart
}
