package relay

import (
	"iter"
	"maps"
	"net/http"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/status"
	"github.com/moqrelay/operator/relay/transport"
)

func (s *Server) statusHandler() http.Handler {
	return admin.Handler(admin.Options{
		Status: s, Stats: s, Alive: s.alive.Check, Drain: s.Drain, Profiles: s.cfg.Status.Pprof.On(),
		Snapshots: map[string]func() iter.Seq[any]{"sessions": s.sessionLines, "routes": s.routeLines, "cache": s.cacheLines},
	})
}

// Status is the status document of this instant.
func (s *Server) Status() status.Document {
	if !s.ready.Load() && s.certificates.loaded() {
		s.ready.Store(true) // a certificate that came late; once ready it stays so
	}
	held, ceiling := s.origin.CacheBytes()
	misrouted, ofPeers := s.misrouted()
	d := status.Document{
		Schema: status.SchemaVersion, Version: s.version, Started: s.started,
		Ready: s.ready.Load(), Draining: s.draining.Load(), Sessions: s.sessions.clients(),
		Config: s.reloads.current(), Certificates: s.certificates.report(),
		Cache:     status.Cache{Bytes: held, Capacity: ceiling},
		Misrouted: misrouted + ofPeers, Cluster: s.clusterStatus(),
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
	stats := modelStats(s.origin.Stats())
	stats.EgressPauses, stats.EgressPauseTime = s.tenants.paced.Waits.Load(), time.Duration(s.tenants.paced.Time.Load())
	stats.DatagramsDropped["queue"] += s.tenants.paced.Dropped.Load()
	stats.AcceptFailures, stats.AcceptStalled = make(map[string]map[string]int64), make(map[string]map[string]time.Duration)
	s.sockets.tcp.count(&stats)
	s.sockets.status.count(&stats)
	for key, c := range s.traffic.all() {
		stats.Traffic = append(stats.Traffic, c.read(key))
		stats.DatagramsDropped["size"] += c.DatagramsTooLarge.Load()
	}
	s.sessions.count(&stats)
	s.countLinks(&stats)
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	stats.ConfigReloads, stats.TLSReloads = maps.Clone(s.reloads.config), maps.Clone(s.reloads.tls)
	return stats
}

// modelStats is what the model has counted.
func modelStats(m *model.Stats) admin.Stats {
	return admin.Stats{
		Broadcasts: m.Broadcasts.Load(), Routes: m.Routes.Load(), Tracks: m.Tracks.Load(), Moves: m.Moves.Load(),
		OpenGroups: m.OpenGroups.Load(), CachedGroups: m.CachedGroups.Load(), BufferBytes: m.BufferBytes.Load(),
		PausedStreams: m.Paused.Load(), Pauses: m.Pauses.Load(), PausesDenied: m.PausesDenied.Load(), PauseTime: time.Duration(m.PauseTime.Load()),
		EvictedGroups: map[string]int64{
			"age": m.EvictedAge.Groups.Load(), "capacity": m.EvictedCapacity.Groups.Load(), "tail": m.EvictedTail.Groups.Load(),
		},
		EvictedBytes: map[string]int64{
			"age": m.EvictedAge.Bytes.Load(), "capacity": m.EvictedCapacity.Bytes.Load(), "tail": m.EvictedTail.Bytes.Load(),
		},
		Fetches: map[string]int64{
			"hit": m.FetchHit.Load(), "miss": m.FetchMiss.Load(), "joined": m.FetchJoined.Load(), "not_found": m.FetchNotFound.Load(),
		},
		DatagramsDropped: map[string]int64{"queue": m.DatagramsQueue.Load(), "age": m.DatagramsAge.Load()},
		Forward:          histogramOf(&m.Forward),
	}
}

// count adds who is connected, and who was, to stats, whose traffic is filled in.
func (s *sessions) count(stats *admin.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Refused = maps.Clone(s.refused)
	for _, o := range s.open {
		if o.drained {
			stats.Draining++
		}
	}
	for i := range stats.Traffic {
		t := &stats.Traffic[i]
		c := s.traffic.of(transport.Kind(t.Transport), t.Tier)
		t.Opened, t.Closed, t.Sessions = c.opened, maps.Clone(c.closed), c.opened
		for _, n := range c.closed {
			t.Sessions -= n
		}
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
			if !yield(status.Route{Path: hideTokens(string(r.Path)), Session: ids[any(r.Source)], Hops: hops}) {
				return
			}
		}
	}
}

func (s *Server) cacheLines() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, t := range s.origin.Cached() {
			if !yield(status.CachedTrack{Path: hideTokens(string(t.Path)), Track: hideTokens(t.Name), Groups: t.Groups, Newest: t.Newest, Bytes: t.Bytes}) {
				return
			}
		}
	}
}
