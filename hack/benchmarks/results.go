package main

import (
	"fmt"
	"strings"
)

// results are what test/bench keeps of a table, or peers of two sets of
// benchmarks: one of Rows and Benchmarks is there.
type results struct {
	Table   string `json:"table"`
	Title   string `json:"title"`
	Command string `json:"command"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
	// Load is the machine's load average before the benchmarks; rows have their own.
	Load       string      `json:"load,omitempty"`
	Rows       []row       `json:"rows,omitempty"`
	Benchmarks []benchmark `json:"benchmarks,omitempty"`
}

// row is one run of moq-load fanout; its report has the names of package relay/load.
type row struct {
	Name    string
	Command string
	Report  struct {
		Relays                   int // 0: one
		DeliveredPercent         float64
		LostSessions             int
		PublisherFramesPerSecond float64
		Latency                  latencies
		LongestStallMs           float64
		Bystander                *struct{ Idle, Busy latencies }
		Relay                    struct {
			CPUSecondsPerGB, CPUSeconds float64
			PeakBytes                   float64
			BytesPerViewer              float64
			KernelDrops                 uint64
		}
		Clients struct {
			CPUSeconds  float64
			KernelDrops uint64
		}
		Seconds           float64
		LoadAverageBefore float64
		OthersProcessors  float64
	}
}

type latencies struct{ P50Ms, P99Ms, MaxMs float64 }

// benchmark is one name in two sets, in nanoseconds for each operation: medians.
type benchmark struct {
	Name   string  `json:"name"`
	Ours   float64 `json:"oursNs"`
	Theirs float64 `json:"theirsNs"`
}

// markdown is what stands between the marks of the page.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "![%s](%s.svg)\n\n", r.Title, r.Table)
	if len(r.Rows) > 0 {
		r.writeRows(&b)
	} else {
		r.writeBenchmarks(&b)
	}
	fmt.Fprintf(&b, "\n`%s` on %s, commit `%s`, on %s.", r.Command, r.Machine, r.Commit, r.Date)
	if r.Load != "" {
		fmt.Fprintf(&b, " Load average before: %s.", r.Load)
	}
	fmt.Fprintf(&b, "\nAll figures: [results/%s.json](results/%s.json).\n", r.Table, r.Table)
	return b.String()
}

func (r *results) writeRows(b *strings.Builder) {
	b.WriteString("| | delivered | sessions lost | latency p50, p99, max | longest stall | relay CPU s/GB | relay processors | peak RSS | RSS for each viewer | kernel drops: relay, clients | bystander p99 idle, busy | publisher | load before | others' processors |\n")
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, row := range r.Rows {
		p := row.Report
		bystander := "–"
		if p.Bystander != nil {
			bystander = fmt.Sprintf("%.1f, %.1f ms", p.Bystander.Idle.P99Ms, p.Bystander.Busy.P99Ms)
		}
		fmt.Fprintf(b, "| %s | %.2f %% | %d | %.1f, %.1f, %.1f ms | %.0f ms | **%.1f** | %.2f | %.1f MiB | **%.0f KiB** | %d, %d | %s | %.1f/s | %.2f | %.2f |\n",
			row.Name, p.DeliveredPercent, p.LostSessions, p.Latency.P50Ms, p.Latency.P99Ms, p.Latency.MaxMs, p.LongestStallMs,
			p.Relay.CPUSecondsPerGB, p.Relay.CPUSeconds/p.Seconds, p.Relay.PeakBytes/(1<<20), p.Relay.BytesPerViewer/1024,
			p.Relay.KernelDrops, p.Clients.KernelDrops, bystander, p.PublisherFramesPerSecond, p.LoadAverageBefore, p.OthersProcessors)
	}
	r.writeAdded(b)
	b.WriteString("\nThe commands of the rows:\n\n```\n")
	for _, row := range r.Rows {
		fmt.Fprintf(b, "%s\n", row.Command)
	}
	b.WriteString("```\n")
}

// writeAdded says what relays behind the first add, where there are rows with several:
// each is compared with the last row before it that has one.
func (r *results) writeAdded(b *strings.Builder) {
	var one *row
	begun := false
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Report.Relays < 2 {
			one = row
			continue
		}
		if one == nil {
			continue
		}
		if !begun {
			b.WriteString("\n| | added to p50 | added to p99 | added CPU s/GB | each further relay |\n| --- | ---: | ---: | ---: | ---: |\n")
			begun = true
		}
		p, q := row.Report, one.Report
		cpu := p.Relay.CPUSecondsPerGB - q.Relay.CPUSecondsPerGB
		fmt.Fprintf(b, "| %s | %+.1f ms | %+.1f ms | %+.1f | **%+.1f** |\n", row.Name,
			p.Latency.P50Ms-q.Latency.P50Ms, p.Latency.P99Ms-q.Latency.P99Ms, cpu, cpu/float64(p.Relays-1))
	}
}

func (r *results) writeBenchmarks(b *strings.Builder) {
	b.WriteString("| | ours | theirs | ours / theirs |\n| --- | ---: | ---: | ---: |\n")
	for _, x := range r.Benchmarks {
		fmt.Fprintf(b, "| %s | %s | %s | **%.2f** |\n", x.Name, nanos(x.Ours), nanos(x.Theirs), x.Ours/x.Theirs)
	}
}

// nanos writes nanoseconds in a unit that is easy to read.
func nanos(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f ms", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f µs", n/1e3)
	}
	return fmt.Sprintf("%.0f ns", n)
}
