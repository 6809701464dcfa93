package relay

import (
	"cmp"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
)

// Why a connection or a session was not taken, for metrics: admin.RefuseReasons.
const (
	refusedUnauthorized = "unauthorized"
	refusedForbidden    = "forbidden"
	refusedOverload     = "overload"
	refusedDraining     = "draining"
	refusedVersion      = "version"
	refusedTLS          = "tls"
	refusedMalformed    = "malformed"
)

// refuse counts what was not taken.
func (s *sessions) refuse(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[reason]++
}

// refusal is why no session may be opened from this address now; "" when it may.
// Every refusal is worth another try elsewhere or later.
func (s *Server) refusal(remote net.Addr) string {
	limits := s.live.Load().Limits
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	var reason string
	switch {
	case s.draining.Load():
		reason = refusedDraining
	case s.sessions.fullLocked(limits, remote):
		reason = refusedOverload
	default:
		return ""
	}
	s.sessions.refused[reason]++
	return reason
}

// admit reports whether a QUIC connection may begin.
func (s *Server) admit(remote net.Addr) bool {
	return s.refusal(remote) == "" && s.mayBegin()
}

// mayBegin reports whether one more handshake is within the rate.
func (s *Server) mayBegin() bool {
	if s.handshakes.take(time.Now(), s.live.Load().Limits.HandshakeRate) {
		return true
	}
	s.sessions.refuse(refusedOverload)
	return false
}

// fullLocked reports whether one more session from this address is over a limit.
func (s *sessions) fullLocked(limits config.Limits, remote net.Addr) bool {
	return limits.Sessions > 0 && s.clientsLocked() >= limits.Sessions ||
		limits.SessionsPerIP > 0 && s.perIP[ipOf(remote)] >= limits.SessionsPerIP
}

func ipOf(remote net.Addr) string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return remote.String()
	}
	return host
}

// fetches are the groups that are fetched over HTTP now.
type fetches struct {
	mu    sync.Mutex // guards what follows
	all   int
	perIP map[string]int
}

// begin counts one more in, or returns the HTTP status that refuses it: 503 where
// there are too many in all, 429 where this client has too many. end counts it out.
func (f *fetches) begin(limits config.Limits, remote net.Addr) (status int, end func()) {
	ip := ipOf(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case limits.HTTPFetchesPerIP > 0 && f.perIP[ip] >= limits.HTTPFetchesPerIP:
		return http.StatusTooManyRequests, nil
	case limits.HTTPFetches > 0 && f.all >= limits.HTTPFetches:
		return http.StatusServiceUnavailable, nil
	}
	if f.perIP == nil {
		f.perIP = make(map[string]int)
	}
	f.all++
	f.perIP[ip]++
	return 0, func() { f.end(ip) }
}

func (f *fetches) end(ip string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.perIP[ip]--; f.perIP[ip] == 0 {
		delete(f.perIP, ip)
	}
}

// setupTimeout is how long a connection may take until it is a session.
func (s *Server) setupTimeout() time.Duration {
	return time.Duration(s.live.Load().Limits.SetupTimeoutSeconds) * time.Second
}

// modelLimits are the limits of what begins from now on.
func modelLimits(l config.Limits) model.Limits {
	return model.Limits{
		UpstreamTimeout: time.Duration(l.UpstreamTimeoutSeconds) * time.Second,
		MaxFrame:        int64(l.MaxFrame),
		GroupTail:       int64(l.GroupTail),
	}
}

// sessionLimits are the limits of a session that begins now.
func sessionLimits(l config.Limits) session.Limits {
	return session.Limits{
		Subscriptions:  countLimit(l.SubscriptionsPerSession),
		Announcements:  countLimit(l.AnnouncementsPerSession),
		ControlMessage: int(l.MaxControlMessage),
		Fetches:        countLimit(l.FetchesPerSession),
		StalledTimeout: time.Duration(l.StalledTimeoutSeconds) * time.Second,
	}
}

// countLimit is a limit as sessions have it, where 0 stands for their default.
func countLimit(n int) int { return cmp.Or(n, math.MaxInt32) }

// rate bounds how often something begins: a bucket that holds what one second
// allows, full at first.
type rate struct {
	mu   sync.Mutex
	left float64
	last time.Time // zero before the first call
}

// take reports whether one more may begin now, with most in a second; 0 is no bound.
func (r *rate) take(now time.Time, most int) bool {
	if most == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := float64(most)
	if r.last.IsZero() {
		r.left = size
	} else {
		r.left = min(size, r.left+now.Sub(r.last).Seconds()*size)
	}
	r.last = now
	if r.left < 1 {
		return false
	}
	r.left--
	return true
}
