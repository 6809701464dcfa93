package admin

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/moqrelay/operator/relay/status"
)

const (
	counterKind = prometheus.CounterValue
	gaugeKind   = prometheus.GaugeValue
)

// families are all metrics; docs/operations.md says what each is good for.
var families = []family{
	bySession(gaugeKind, "sessions", "Open sessions.", func(t Traffic) int64 { return t.Sessions }),
	bySession(counterKind, "sessions_opened_total", "Sessions taken.", func(t Traffic) int64 { return t.Opened }),
	{desc: describe("sessions_closed_total", "Sessions that ended.", "transport", "tier", "reason"), kind: counterKind, read: closedSessions},
	byWord(counterKind, "sessions_refused_total", "Connections and sessions that were not taken.", "reason", RefuseReasons, func(r reading) map[string]int64 { return r.stats.Refused }),
	gauge("sessions_draining", "Open sessions that were told to leave.", func(r reading) int64 { return r.stats.Draining }),

	byRole(gaugeKind, "subscriptions", "Open requests for tracks: ours to publishers, and viewers' to us.", func(f Flow) int64 { return f.Subscriptions }),
	byRole(counterKind, "subscriptions_opened_total", "Requests for tracks.", func(f Flow) int64 { return f.Opened }),
	{desc: describe("subscription_errors_total", "Viewers' requests for tracks and groups that were refused.", "role", "tier", "reason"), kind: counterKind, read: requestErrors},
	gauge("broadcasts", "Paths that have a publisher.", func(r reading) int64 { return r.stats.Broadcasts }),
	gauge("routes", "Announcements in use.", func(r reading) int64 { return r.stats.Routes }),
	gauge("tracks", "Tracks that are fetched from a publisher.", func(r reading) int64 { return r.stats.Tracks }),
	counter("track_moves_total", "Tracks that went on over a better route while theirs was there.", func(r reading) int64 { return r.stats.Moves }),
	gauge("groups_open", "Groups that are being received.", func(r reading) int64 { return r.stats.OpenGroups }),
	byRole(counterKind, "announcements_total", "Messages of announcements: begun, changed and ended.", func(f Flow) int64 { return f.Announcements }),
	total("announcements_discarded_total", "Announcements that were ignored: over the limit, or with too many hops.", func(t Traffic) int64 { return t.Discarded }),

	byRole(counterKind, "bytes_total", "Bytes of frames, their heads included.", func(f Flow) int64 { return f.Bytes }),
	byRole(counterKind, "frames_total", "Frames.", func(f Flow) int64 { return f.Frames }),
	byRole(counterKind, "groups_total", "Groups.", func(f Flow) int64 { return f.Groups }),
	byRole(counterKind, "datagrams_total", "Datagrams.", func(f Flow) int64 { return f.Datagrams }),
	byRole(counterKind, "fetches_total", "Requests for single groups: ours to publishers, and viewers' to us.", func(f Flow) int64 { return f.Fetches }),
	byWord(counterKind, "datagrams_dropped_total", "Datagrams that did not go to a viewer.", "reason", DropReasons, func(r reading) map[string]int64 { return r.stats.DatagramsDropped }),
	totalByWord("group_streams_reset_total", "Streams to viewers that did not end with their group.", "reason", ResetReasons, func(t Traffic) map[string]int64 { return t.Resets }),
	byTier("expired_bytes_total", "Bytes that viewers did not get because a newer group was there.", func(t Traffic) int64 { return t.ExpiredBytes }),
	totalByWord("streams_refused_total", "Peers' streams that were ended without being used.", "reason", StrayReasons, func(t Traffic) map[string]int64 { return t.Strays }),

	gauge("ingest_paused_streams", "Ingest streams that wait for a viewer.", func(r reading) int64 { return r.stats.PausedStreams }),
	counter("ingest_pauses_total", "Times that an ingest stream waited for a viewer.", func(r reading) int64 { return r.stats.Pauses }),
	{desc: describe("ingest_pause_seconds_total", "How long ingest streams waited, those that still wait aside."), kind: counterKind, read: func(r reading, emit emit) { emit(r.stats.PauseTime.Seconds()) }},
	counter("ingest_pause_denied_total", "Waits that the session's credit did not cover.", func(r reading) int64 { return r.stats.PausesDenied }),

	counter("egress_pauses_total", "Writes to viewers that waited for their tenant's rate.", func(r reading) int64 { return r.stats.EgressPauses }),
	{desc: describe("egress_pause_seconds_total", "How long writes to viewers waited for their tenant's rate, those that still wait aside."), kind: counterKind, read: func(r reading, emit emit) { emit(r.stats.EgressPauseTime.Seconds()) }},

	gauge("cache_bytes", "Charge of all groups held.", func(r reading) int64 { return r.doc.Cache.Bytes }),
	gauge("cache_capacity_bytes", "Ceiling of the charge.", func(r reading) int64 { return r.doc.Cache.Capacity }),
	gauge("cache_groups", "Groups held.", func(r reading) int64 { return r.stats.CachedGroups }),
	byWord(counterKind, "cache_evicted_groups_total", "Groups of which something was dropped.", "reason", EvictReasons, func(r reading) map[string]int64 { return r.stats.EvictedGroups }),
	byWord(counterKind, "cache_evicted_bytes_total", "Charge that was dropped.", "reason", EvictReasons, func(r reading) map[string]int64 { return r.stats.EvictedBytes }),
	byWord(counterKind, "cache_fetch_total", "Requests for single groups, by where they were answered from.", "result", FetchResults, func(r reading) map[string]int64 { return r.stats.Fetches }),
	gauge("buffer_bytes", "Memory of all groups that the cache or a viewer holds.", func(r reading) int64 { return r.stats.BufferBytes }),

	{desc: describe("udp_socket_buffer_bytes", "Buffers of the UDP socket, in bytes as asked of the kernel.", "direction", "kind"), kind: gaugeKind, read: socketBuffers},
	{desc: describe("udp_packets_dropped_total", "Datagrams that the kernel dropped because the receive buffer was full.", "socket"), kind: counterKind, read: func(r reading, emit emit) {
		if b := r.doc.SocketBuffers; b != nil {
			emit(float64(b.Drops), "0")
		}
		if c := r.doc.Cluster; c != nil {
			emit(float64(c.Drops), "peer")
		}
	}},

	byWord(counterKind, "udp_packets_misrouted_total", "Packets that belong to no connection of this process.", "port", Ports, func(r reading) map[string]int64 { return r.stats.Misrouted }),

	gauge("peers_expected", "Addresses of the mesh, this relay's own left out.", func(r reading) int64 { return int64(r.cluster().Expected) }),
	gauge("peers_connected", "Of these, those whose relay is reached.", func(r reading) int64 { return int64(r.cluster().Connected) }),
	counter("peer_refused_total", "Connections between peer ports whose other side has none of our TLS keys.", func(r reading) int64 { return r.cluster().Refused }),
	byWord(counterKind, "peer_dials_total", "Attempts to reach relays of the mesh.", "result", DialResults, func(r reading) map[string]int64 { return r.stats.PeerDials }),
	gauge("upstreams_connected", "Upstreams that are reached, of all their addresses.", func(r reading) int64 { return r.upstreams() }),
	byWord(counterKind, "upstream_dials_total", "Attempts to reach upstreams.", "result", DialResults, func(r reading) map[string]int64 { return r.stats.UpstreamDials }),

	histogram("first_frame_seconds", "From a viewer's request to the first byte for it.", firstFrame),
	histogram("forward_seconds", "From a group's first byte in to the first byte that a viewer took.", func(r reading) Histogram { return r.stats.Forward }),

	total("goaway_sent_total", "Sessions that were told to leave.", func(t Traffic) int64 { return t.GoawaySent }),
	total("goaway_received_total", "Peers that said they leave.", func(t Traffic) int64 { return t.GoawayReceived }),
	byListener(counterKind, "accept_failures_total", "Failures to accept a connection.", func(s Stats, listener, class string) float64 { return float64(s.AcceptFailures[listener][class]) }),
	byListener(gaugeKind, "accept_stalled_seconds", "For how long a listener has accepted nothing because of failures.", func(s Stats, listener, class string) float64 { return s.AcceptStalled[listener][class].Seconds() }),
	byWord(counterKind, "config_reloads_total", "Changed configuration files.", "result", ConfigResults, func(r reading) map[string]int64 { return r.stats.ConfigReloads }),
	byWord(counterKind, "tls_reloads_total", "Changed certificate files.", "result", TLSResults, func(r reading) map[string]int64 { return r.stats.TLSReloads }),
	{desc: describe("tls_certificate_expiry_seconds", "Time until the certificate ends; negative after that.", "certificate"), kind: gaugeKind, read: certificates},
	{desc: describe("build_info", "Always 1.", "version", "go_version"), kind: gaugeKind, read: func(r reading, emit emit) {
		emit(1, r.doc.Version, runtime.Version())
	}},
}

// closedSessions counts by transport, tier and reason.
func closedSessions(r reading, emit emit) {
	for _, tier := range r.tiers() {
		for _, transport := range Transports {
			for _, reason := range CloseReasons {
				emit(r.sum(transport, tier, func(t Traffic) int64 { return t.Closed[reason] }), transport, tier, reason)
			}
		}
	}
}

// requestErrors counts by tier and reason. Only viewers are refused.
func requestErrors(r reading, emit emit) {
	for _, tier := range r.tiers() {
		for _, reason := range RequestErrors {
			emit(r.sum("", tier, func(t Traffic) int64 { return t.Subscriber.Errors[reason] }), "subscriber", tier, reason)
		}
	}
}

// firstFrame is over all traffic.
func firstFrame(r reading) Histogram {
	var h Histogram
	for _, t := range r.stats.Traffic {
		h.add(t.FirstFrame)
	}
	return h
}

// socketBuffers shows both directions, asked and granted; nothing without a socket.
func socketBuffers(r reading, emit emit) {
	b := r.doc.SocketBuffers
	if b == nil {
		return
	}
	emit(float64(b.Receive.Requested), "receive", "requested")
	emit(float64(b.Receive.Granted), "receive", "granted")
	emit(float64(b.Send.Requested), "send", "requested")
	emit(float64(b.Send.Granted), "send", "granted")
}

// certificates shows each certificate's time. Of two with the same name the
// first is shown: a second series of the same labels would spoil the whole scrape.
func certificates(r reading, emit emit) {
	seen := map[string]bool{}
	for _, c := range r.doc.Certificates {
		if !seen[c.Name] {
			seen[c.Name] = true
			emit(c.NotAfter.Sub(r.now).Seconds(), c.Name)
		}
	}
}

// cluster is about other relays; all zero where there are none.
func (r reading) cluster() status.Cluster {
	if r.doc.Cluster == nil {
		return status.Cluster{}
	}
	return *r.doc.Cluster
}

// upstreams counts the addresses of upstreams with a session.
func (r reading) upstreams() (n int64) {
	for _, u := range r.cluster().Upstreams {
		if u.State == "Connected" {
			n++
		}
	}
	return n
}
