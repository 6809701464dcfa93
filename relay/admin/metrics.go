package admin

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/moqrelay/operator/relay/status"
)

// The values of the metrics' labels. A series exists for each from the start; a
// count under another word is not shown.
var (
	// Transports are the values of the label "transport".
	Transports = []string{"quic", "webtransport", "websocket"}
	// CloseReasons say how a session ended: in order, by a fault of the peer's
	// protocol, by a lost connection, or because the relay was leaving.
	CloseReasons = []string{"clean", "protocol", "lost", "drained"}
	// RefuseReasons say why a session was not taken.
	RefuseReasons = []string{"unauthorized", "forbidden", "overload", "draining", "version", "tls", "malformed"}
	// Listeners are the values of the label "listener", AcceptClasses those of
	// "class": one connection's own failure, no descriptors or memory, anything else.
	Listeners     = []string{"tcp", "status"}
	AcceptClasses = []string{"connection", "exhausted", "unknown"}
	// ConfigResults and TLSResults are the values of the label "result" of reloads:
	// in force, not usable, in force but for keys that wait for a restart.
	ConfigResults = []string{"ok", "rejected", "needs_restart"}
	TLSResults    = []string{"ok", "rejected"}
)

// Stats is what the relay has counted since its start. Counters only grow while
// the process lives, ended sessions included. Maps have the words above as keys;
// a word that is missing counts 0.
type Stats struct {
	// Sessions are the open sessions by transport, Opened those ever taken.
	Sessions, Opened map[string]int64
	// Closed counts ended sessions by transport and reason.
	Closed map[string]map[string]int64
	// Refused counts sessions that were not taken, by reason.
	Refused map[string]int64
	// AcceptFailures counts failures to accept by listener and class. AcceptStalled
	// is for how long a listener has not been able to accept.
	AcceptFailures map[string]map[string]int64
	AcceptStalled  map[string]map[string]time.Duration

	// Broadcasts, Routes, Tracks and Subscriptions are there now.
	Broadcasts, Routes, Tracks, Subscriptions int64
	// Groups counts the groups that began, CachedGroups those held now.
	Groups, CachedGroups int64
	// PausedStreams are the ingest streams that wait for a viewer now. Pauses
	// counts the waits, PausesDenied those that the session's credit did not cover.
	PausedStreams, Pauses, PausesDenied int64
	// EvictedGroups counts groups dropped whole, EvictedBytes their charge, and
	// EvictedTailBytes what was dropped from the front of groups.
	EvictedGroups, EvictedBytes, EvictedTailBytes int64
	// ReadersExpired counts viewers' groups that were cut because a newer one had come.
	ReadersExpired int64

	// GoawaySent counts sessions that were told to leave.
	GoawaySent int64
	// ConfigReloads and TLSReloads count changed files by result.
	ConfigReloads, TLSReloads map[string]int64
}

// reading is what one scrape sees.
type reading struct {
	doc   status.Document
	stats Stats
	now   time.Time
}

// family is one metric: its description, its kind, and how its series are read.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(r reading, emit emit)
}

// emit sends one series: its value, and a value for each label.
type emit func(value float64, labels ...string)

// newFamily describes a metric.
func newFamily(kind prometheus.ValueType, name, help string, labels []string, read func(r reading, emit emit)) family {
	return family{prometheus.NewDesc("moq_relay_"+name, help, labels, nil), kind, read}
}

// gauge and counter are metrics of one series.
func gauge(name, help string, read func(r reading) int64) family {
	return newFamily(prometheus.GaugeValue, name, help, nil, func(r reading, emit emit) { emit(float64(read(r))) })
}

func counter(name, help string, read func(r reading) int64) family {
	return newFamily(prometheus.CounterValue, name, help, nil, func(r reading, emit emit) { emit(float64(read(r))) })
}

// byWord is a metric of one label with known words.
func byWord(kind prometheus.ValueType, name, help, label string, words []string, read func(r reading) map[string]int64) family {
	return newFamily(kind, name, help, []string{label}, func(r reading, emit emit) {
		counts := read(r)
		for _, word := range words {
			emit(float64(counts[word]), word)
		}
	})
}

// collector makes metrics of what the relay tells.
type collector struct {
	status StatusSource
	stats  StatsSource
}

// newRegistry returns a registry with the relay's metrics, Go's and the process's.
func newRegistry(status StatusSource, stats StatsSource) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector{status, stats},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	r := reading{doc: c.status.Status(), stats: c.stats.Stats(), now: time.Now()}
	for _, f := range families {
		f.read(r, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
		})
	}
}

var families = []family{
	byWord(prometheus.GaugeValue, "sessions", "Open sessions.", "transport", Transports, func(r reading) map[string]int64 { return r.stats.Sessions }),
	byWord(prometheus.CounterValue, "sessions_opened_total", "Sessions taken.", "transport", Transports, func(r reading) map[string]int64 { return r.stats.Opened }),
	newFamily(prometheus.CounterValue, "sessions_closed_total", "Sessions that ended.", []string{"transport", "reason"}, closedSessions),
	byWord(prometheus.CounterValue, "sessions_refused_total", "Sessions that were not taken.", "reason", RefuseReasons, func(r reading) map[string]int64 { return r.stats.Refused }),
	gauge("sessions_draining", "Open sessions while the relay drains.", func(r reading) int64 {
		if !r.doc.Draining {
			return 0
		}
		return r.doc.Sessions
	}),
	gauge("broadcasts", "Paths that have a route.", func(r reading) int64 { return r.stats.Broadcasts }),
	gauge("routes", "Routes to broadcasts.", func(r reading) int64 { return r.stats.Routes }),
	gauge("tracks", "Tracks that are fetched from a publisher.", func(r reading) int64 { return r.stats.Tracks }),
	gauge("subscriptions", "Subscriptions of viewers.", func(r reading) int64 { return r.stats.Subscriptions }),
	counter("groups_total", "Groups that began.", func(r reading) int64 { return r.stats.Groups }),
	gauge("ingest_paused_streams", "Ingest streams that wait for a viewer.", func(r reading) int64 { return r.stats.PausedStreams }),
	counter("ingest_pauses_total", "Times that an ingest stream waited for a viewer.", func(r reading) int64 { return r.stats.Pauses }),
	counter("ingest_pause_denied_total", "Waits that the session's credit did not cover.", func(r reading) int64 { return r.stats.PausesDenied }),
	newFamily(prometheus.CounterValue, "group_streams_reset_total", "Streams to viewers that were cut.", []string{"reason"}, func(r reading, emit emit) {
		emit(float64(r.stats.ReadersExpired), "expired")
	}),
	gauge("cache_bytes", "Charge of all groups held.", func(r reading) int64 { return r.doc.Cache.Bytes }),
	gauge("cache_capacity_bytes", "Ceiling of the charge.", func(r reading) int64 { return r.doc.Cache.Capacity }),
	gauge("cache_groups", "Groups held.", func(r reading) int64 { return r.stats.CachedGroups }),
	counter("cache_evicted_groups_total", "Groups dropped whole, by age or for want of room.", func(r reading) int64 { return r.stats.EvictedGroups }),
	newFamily(prometheus.CounterValue, "cache_evicted_bytes_total", "Charge that was dropped: whole groups, or the front of a group.", []string{"part"}, func(r reading, emit emit) {
		emit(float64(r.stats.EvictedBytes), "group")
		emit(float64(r.stats.EvictedTailBytes), "tail")
	}),
	newFamily(prometheus.GaugeValue, "udp_socket_buffer_bytes", "Buffers of the UDP socket, in bytes as asked of the kernel.", []string{"direction", "kind"}, socketBuffers),
	newFamily(prometheus.CounterValue, "udp_packets_dropped_total", "Datagrams that the kernel dropped because the receive buffer was full.", []string{"socket"}, func(r reading, emit emit) {
		if b := r.doc.SocketBuffers; b != nil {
			emit(float64(b.Drops), "0")
		}
	}),
	counter("goaway_sent_total", "Sessions that were told to leave.", func(r reading) int64 { return r.stats.GoawaySent }),
	newFamily(prometheus.CounterValue, "accept_failures_total", "Failures to accept a connection.", []string{"listener", "class"}, func(r reading, emit emit) {
		for _, listener := range Listeners {
			for _, class := range AcceptClasses {
				emit(float64(r.stats.AcceptFailures[listener][class]), listener, class)
			}
		}
	}),
	newFamily(prometheus.GaugeValue, "accept_stalled_seconds", "For how long a listener has accepted nothing for a failure; 0: it accepts.", []string{"listener", "class"}, func(r reading, emit emit) {
		for _, listener := range Listeners {
			for _, class := range AcceptClasses {
				emit(r.stats.AcceptStalled[listener][class].Seconds(), listener, class)
			}
		}
	}),
	byWord(prometheus.CounterValue, "config_reloads_total", "Changed configuration files.", "result", ConfigResults, func(r reading) map[string]int64 { return r.stats.ConfigReloads }),
	byWord(prometheus.CounterValue, "tls_reloads_total", "Changed certificate files.", "result", TLSResults, func(r reading) map[string]int64 { return r.stats.TLSReloads }),
	newFamily(prometheus.GaugeValue, "tls_certificate_expiry_seconds", "Time until the certificate ends; negative after that.", []string{"certificate"}, certificates),
	newFamily(prometheus.GaugeValue, "build_info", "Always 1.", []string{"version", "go_version"}, func(r reading, emit emit) {
		emit(1, r.doc.Version, runtime.Version())
	}),
}

// closedSessions counts by transport and reason.
func closedSessions(r reading, emit emit) {
	for _, transport := range Transports {
		for _, reason := range CloseReasons {
			emit(float64(r.stats.Closed[transport][reason]), transport, reason)
		}
	}
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
