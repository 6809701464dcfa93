package relay

import (
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/status"
)

func (s *Server) statusHandler() http.Handler {
	return admin.Handler(admin.Options{
		Status: s, Stats: s, Alive: s.alive.Check, Drain: s.Drain, Profiles: s.profile,
		Snapshots: map[string]func() iter.Seq[any]{"sessions": s.sessionLines, "routes": s.routeLines},
	})
}

// Status is the status document of this instant.
func (s *Server) Status() status.Document {
	if !s.ready.Load() && s.certificates.loaded() {
		s.ready.Store(true) // a certificate that came late; once ready it stays so
	}
	held, ceiling := s.origin.CacheBytes()
	open, _ := s.sessions.list()
	d := status.Document{
		Schema: status.SchemaVersion, Version: s.version, Started: s.started,
		Ready: s.ready.Load(), Draining: s.draining.Load(), Sessions: int64(len(open)),
		Config: s.reloads.current(), Certificates: s.certificates.report(),
		Cache: status.Cache{Bytes: held, Capacity: ceiling},
	}
	if s.sockets.udp != nil {
		if b, err := s.sockets.udp.Socket(); err == nil {
			d.SocketBuffers = &status.SocketBuffers{
				Receive: status.Buffer{Requested: int64(b.RequestedReceive), Granted: int64(b.GrantedReceive)},
				Send:    status.Buffer{Requested: int64(b.RequestedSend), Granted: int64(b.GrantedSend)},
				Drops:   b.Drops,
			}
		}
	}
	return d
}

func (r *reloads) current() status.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Stats is what was counted since the start.
func (s *Server) Stats() admin.Stats {
	m := s.origin.Stats()
	stats := admin.Stats{
		Broadcasts: m.Broadcasts.Load(), Routes: m.Routes.Load(), Tracks: m.Tracks.Load(), Subscriptions: m.Subscriptions.Load(),
		Groups: m.Groups.Load(), CachedGroups: m.CachedGroups.Load(),
		PausedStreams: m.Paused.Load(), Pauses: m.Pauses.Load(), PausesDenied: m.PausesDenied.Load(),
		EvictedGroups: m.EvictedGroups.Load(), EvictedBytes: m.EvictedBytes.Load(), EvictedTailBytes: m.EvictedTailBytes.Load(),
		ReadersExpired: m.ReadersExpired.Load(), Sessions: make(map[string]int64),
	}
	stats.AcceptFailures, stats.AcceptStalled = make(map[string]map[string]int64), make(map[string]map[string]time.Duration)
	s.sockets.tcp.count(&stats)
	s.sockets.status.count(&stats)
	s.sessions.count(&stats)
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	stats.ConfigReloads, stats.TLSReloads = maps.Clone(s.reloads.config), maps.Clone(s.reloads.tls)
	return stats
}

func (s *sessions) count(stats *admin.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		stats.Sessions[string(o.conn.Info().Kind)]++
	}
	stats.Opened, stats.Refused, stats.GoawaySent = maps.Clone(s.opened), maps.Clone(s.refused), s.goaways
	stats.Closed = make(map[string]map[string]int64)
	for kind, reasons := range s.closed {
		stats.Closed[kind] = maps.Clone(reasons)
	}
}

func (s *Server) sessionLines() iter.Seq[any] {
	open, _ := s.sessions.list()
	return func(yield func(any) bool) {
		for _, o := range open {
			if !yield(o.snapshot()) {
				return
			}
		}
	}
}

func (s *Server) routeLines() iter.Seq[any] {
	ids := make(map[any]uint64)
	open, _ := s.sessions.list()
	for _, o := range open {
		ids[o.session] = o.id
	}
	return func(yield func(any) bool) {
		for _, r := range s.origin.Routes() {
			hops := r.Hops
			if hops == nil {
				hops = []uint64{}
			}
			if !yield(status.Route{Path: string(r.Path), Session: ids[any(r.Source)], Hops: hops}) {
				return
			}
		}
	}
}
