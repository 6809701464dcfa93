package admin

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/moqrelay/operator/relay/status"
)

// reading is what one scrape sees.
type reading struct {
	doc   status.Document
	stats Stats
	now   time.Time
}

// tiers are the tiers that there are, the default one in any case.
func (r reading) tiers() []string {
	names := []string{DefaultTier}
	for _, t := range r.stats.Traffic {
		if !slices.Contains(names, t.Tier) {
			names = append(names, t.Tier)
		}
	}
	return names
}

// sum adds up what read gives for the entries of a transport and a tier; "" is all of them.
func (r reading) sum(transport, tier string, read func(t Traffic) int64) float64 {
	total := int64(0)
	for _, t := range r.stats.Traffic {
		if (transport == "" || t.Transport == transport) && (tier == "" || t.Tier == tier) {
			total += read(t)
		}
	}
	return float64(total)
}

// family is one metric: its description, its kind, and how its series are read.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(r reading, emit emit)
	// histogram is set instead of kind and read for a metric of durations.
	histogram func(r reading) Histogram
}

// emit sends one series: its value, and a value for each label.
type emit func(value float64, labels ...string)

// describe names a metric.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("moq_relay_"+name, help, labels, nil)
}

// gauge and counter are metrics of one series.
func gauge(name, help string, read func(r reading) int64) family {
	return family{desc: describe(name, help), kind: prometheus.GaugeValue, read: func(r reading, emit emit) { emit(float64(read(r))) }}
}

func counter(name, help string, read func(r reading) int64) family {
	f := gauge(name, help, read)
	f.kind = prometheus.CounterValue
	return f
}

// total is a counter that is the sum over all traffic.
func total(name, help string, read func(t Traffic) int64) family {
	return counter(name, help, func(r reading) int64 { return int64(r.sum("", "", read)) })
}

// histogram is a metric of durations in seconds.
func histogram(name, help string, read func(r reading) Histogram) family {
	return family{desc: describe(name, help), histogram: read}
}

// byWord is a metric of one label with known words.
func byWord(kind prometheus.ValueType, name, help, label string, words []string, read func(r reading) map[string]int64) family {
	return family{desc: describe(name, help, label), kind: kind, read: func(r reading, emit emit) {
		counts := read(r)
		for _, word := range words {
			emit(float64(counts[word]), word)
		}
	}}
}

// totalByWord is a counter by a word, summed over all traffic.
func totalByWord(name, help, label string, words []string, read func(t Traffic) map[string]int64) family {
	return family{desc: describe(name, help, label), kind: prometheus.CounterValue, read: func(r reading, emit emit) {
		for _, word := range words {
			emit(r.sum("", "", func(t Traffic) int64 { return read(t)[word] }), word)
		}
	}}
}

// bySession is a metric of sessions, by transport and tier.
func bySession(kind prometheus.ValueType, name, help string, read func(t Traffic) int64) family {
	return family{desc: describe(name, help, "transport", "tier"), kind: kind, read: func(r reading, emit emit) {
		for _, tier := range r.tiers() {
			for _, transport := range Transports {
				emit(r.sum(transport, tier, read), transport, tier)
			}
		}
	}}
}

// byTier is a counter by tier.
func byTier(name, help string, read func(t Traffic) int64) family {
	return family{desc: describe(name, help, "tier"), kind: prometheus.CounterValue, read: func(r reading, emit emit) {
		for _, tier := range r.tiers() {
			emit(r.sum("", tier, read), tier)
		}
	}}
}

// byRole is a metric by role and tier.
func byRole(kind prometheus.ValueType, name, help string, read func(f Flow) int64) family {
	return family{desc: describe(name, help, "role", "tier"), kind: kind, read: func(r reading, emit emit) {
		for _, tier := range r.tiers() {
			emit(r.sum("", tier, func(t Traffic) int64 { return read(t.Publisher) }), "publisher", tier)
			emit(r.sum("", tier, func(t Traffic) int64 { return read(t.Subscriber) }), "subscriber", tier)
		}
	}}
}

// byListener is a metric by listener and class.
func byListener(kind prometheus.ValueType, name, help string, read func(s Stats, listener, class string) float64) family {
	return family{desc: describe(name, help, "listener", "class"), kind: kind, read: func(r reading, emit emit) {
		for _, listener := range Listeners {
			for _, class := range AcceptClasses {
				emit(read(r.stats, listener, class), listener, class)
			}
		}
	}}
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
		if f.histogram != nil {
			h := f.histogram(r)
			to <- prometheus.MustNewConstHistogram(f.desc, h.Count, h.Sum, h.Buckets)
			continue
		}
		f.read(r, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
		})
	}
}
