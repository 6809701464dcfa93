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
}

func (r *reloads) loaded(l *config.Loaded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status.Config{Hash: l.Hash, LiveHash: l.LiveHash}
	r.config, r.tls = make(map[string]int64), make(map[string]int64)
}

func (r *reloads) countTLS(ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tls[result(ok)]++
}

// result is the metrics' word: admin.ReloadResults.
func result(ok bool) string {
	if ok {
		return "ok"
	}
	return "rejected"
}

// reload follows the configuration's files until ctx is done.
func (s *Server) reload(ctx context.Context) error {
	s.certificates.setReloads(s.reloads.countTLS)
	if s.source.File == "" && s.source.LiveFile == "" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	config.Watch(ctx, s.source, s.loaded, s.apply)
	return context.Cause(ctx)
}

// apply puts a changed configuration in force, or reports why it is not.
func (s *Server) apply(u config.Update) {
	if u.Err != nil {
		s.reloads.rejected(u.Err)
		s.log.Error("changed configuration is not in force, the one before stays; correct the file", "error", u.Err)
		return
	}
	live := u.Live
	s.logs.set(live.Log)
	s.origin.SetPacingCap(int64(live.PacingCap))
	s.origin.SetCache(cacheConfig(live.Cache, memoryLimit(s.log)))
	s.live.Store(&live)
	s.reloads.accepted(u) // last: what is reported is in force
	s.log.Info("changed configuration is in force", "liveHash", u.LiveHash)
	if len(u.NeedsRestart) > 0 {
		s.log.Warn("some changed keys take effect only after a restart", "keys", strings.Join(u.NeedsRestart, " "))
	}
}

func (r *reloads) rejected(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config[result(false)]++
	r.status.Rejected = err.Error()
}

func (r *reloads) accepted(u config.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config[result(true)]++
	r.status.Rejected, r.status.LiveHash, r.status.NeedsRestart = "", u.LiveHash, u.NeedsRestart
}
