package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/status"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// Why a session ended, for metrics: admin.CloseReasons.
const (
	closedClean    = "clean"
	closedProtocol = "protocol"
	closedLost     = "lost"
	closedStalled  = "stalled"
	closedExpired  = "expired"
	closedDrained  = "drained"
	closedForced   = "forced"
)

// sessions are who is connected, and the count of those who were.
type sessions struct {
	running sync.WaitGroup
	traffic *traffic

	mu      sync.Mutex
	nextID  uint64
	open    map[uint64]*openSession
	perIP   map[string]int
	links   int // of open, those with other relays
	refused map[string]int64
	changed chan struct{} // closed and replaced when a session ends
}

type openSession struct {
	id      uint64
	conn    transport.Conn
	session *lite.Session
	started time.Time
	cancel  context.CancelCauseFunc
	kind    string // of another relay, a cluster.Kind; empty for a client

	// guarded by sessions.mu
	drained  bool          // told to leave
	counts   *tierCounters // where it is counted; nil before it is let in
	admitted bool          // counted for tenant
	tenant   string
	gone     bool // ended
}

func newSessions(t *traffic) *sessions {
	return &sessions{
		traffic: t, open: make(map[uint64]*openSession), perIP: make(map[string]int),
		refused: make(map[string]int64), changed: make(chan struct{}),
	}
}

// serve runs one session until it ends.
func (s *Server) serve(ctx context.Context, conn transport.Conn) {
	info := conn.Info()
	version, err := wire.ParseVersion(info.Protocol)
	if err != nil { // the transports negotiate what we speak, so this is ours
		s.log.Error("a transport negotiated a protocol that has no session", "protocol", info.Protocol)
		conn.Close(uint64(wire.SessionVersionNegotiationFail), "no such protocol")
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := s.log.With("remote", info.Remote.String(), "transport", string(info.Kind), "protocol", info.Protocol)
	limits := s.live.Load().Limits
	open := &openSession{conn: conn, started: time.Now(), cancel: cancel}
	open.session = lite.New(conn, version, lite.Config{
		Origin:      s.origin,
		Authorize:   s.authorizer(info),
		Admit:       func(grant session.Grant) error { return s.admitTo(open, grant) },
		Pacer:       s.tenants.pacer,
		Limits:      sessionLimits(limits),
		Counters:    &s.traffic.of(info.Kind, "").Counters,
		CountersFor: func(tier string) *session.Counters { return s.sessions.grant(open, tier) },
		Log:         log,
	})
	if !s.sessions.add(open, limits) { // many came at once, and all of them before the first was counted
		conn.Close(uint64(wire.SessionInternalError), "no new sessions now: overload")
		return
	}
	if s.auth == nil && limits.SessionsPerTenant == 0 { // it is let in already
		s.sessions.grant(open, "")
	}
	log = log.With("session", open.id)
	log.Debug("session opened")
	if s.draining.Load() { // it came between the check and now
		s.sendGoaway(open)
	}
	err = open.session.Run(ctx)
	reason := s.sessions.remove(open, err, ctx.Err() != nil)
	if open.admitted {
		s.tenants.leave(open.tenant)
	}
	logEnd(ctx, log, reason, err, time.Since(open.started))
}

// grant counts a session as opened, the first time, and returns where it counts.
func (s *sessions) grant(o *openSession, tier string) *session.Counters {
	counts := s.traffic.of(o.conn.Info().Kind, tier)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.counts == nil && !o.gone {
		o.counts = counts
		counts.opened++
	}
	return &counts.Counters
}

func logEnd(ctx context.Context, log *slog.Logger, reason string, err error, lasted time.Duration) {
	level := slog.LevelDebug
	if reason == closedProtocol {
		level = slog.LevelInfo
	}
	log.Log(ctx, level, "session ended", "reason", reason, "error", err, "lasted", lasted.Round(time.Millisecond).String())
}

// add takes a session in; it reports false when that is over a limit.
func (s *sessions) add(o *openSession, limits config.Limits) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	remote := o.conn.Info().Remote
	if s.fullLocked(limits, remote) {
		s.refused[refusedOverload]++
		return false
	}
	s.nextID++
	o.id = s.nextID
	s.open[o.id] = o
	s.perIP[ipOf(remote)]++
	return true
}

// remove forgets an ended session and returns the word for its end; forced when
// the relay ended it.
func (s *sessions) remove(o *openSession, err error, forced bool) string {
	ip := ipOf(o.conn.Info().Remote)
	s.mu.Lock()
	defer s.mu.Unlock()
	o.gone = true
	delete(s.open, o.id)
	if o.isLink() {
		s.links--
	} else if s.perIP[ip]--; s.perIP[ip] == 0 {
		delete(s.perIP, ip)
	}
	reason := closeReason(o, err, forced)
	if o.counts != nil {
		o.counts.closed[reason]++
	} else if reason == closedProtocol { // before it was let in
		s.refused[refusedMalformed]++
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return reason
}

func closeReason(o *openSession, err error, forced bool) string {
	fault, ours := errors.AsType[*lite.Error](err)
	closed, ended := errors.AsType[*transport.CloseError](err)
	switch {
	case forced, errors.Is(err, errTenantFull):
		return closedForced
	case ours && fault.Code == wire.SessionUnauthorized:
		return closedExpired
	case ours && fault.Code == wire.SessionCode(wire.StreamTooFarBehind):
		return closedStalled
	case ours:
		return closedProtocol
	case o.drained:
		return closedDrained
	case err == nil, ended && closed.Remote && !closed.Transport: // the latter with a code of its own
		return closedClean
	}
	return closedLost
}

// list returns the open sessions in the order they came, and a channel that is
// closed when one of them ends.
func (s *sessions) list() ([]*openSession, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*openSession, 0, len(s.open))
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		out = append(out, s.open[id])
	}
	return out, s.changed
}

// closeAll ends every session and waits for them.
func (s *sessions) closeAll() {
	open, _ := s.list()
	for _, o := range open {
		o.cancel(nil)
	}
	s.running.Wait()
}

// snapshot is one session for the status port.
func (o *openSession) snapshot() status.Session {
	info, stats := o.conn.Info(), o.session.Stats()
	return status.Session{
		ID: o.id, Kind: cmp.Or(o.kind, "client"), Transport: string(info.Kind), Protocol: info.Protocol, Remote: info.Remote.String(), Started: o.started,
		Watches: stats.Requests, Publishes: stats.Pulls, Announcements: stats.Announcements, Draining: stats.Draining,
	}
}
