// Command bench runs the model's group benches in rounds and prints their medians
// beside the figures that were published for the public Rust model, and beside those
// of a run of that model on this machine where there is a file of them.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// published are nanoseconds for one iteration of the public moq-net model's group
// benches, of August 2026 on a Ryzen 9 5900XT without other load.
var published = map[string]float64{
	"GroupRelayFrames/plain/4/1": 184, "GroupRelayFrames/plain/4/8": 1500, "GroupRelayFrames/plain/4/64": 12_100,
	"GroupRelayFrames/plain/512/1": 15_000, "GroupRelayFrames/plain/512/8": 121_600, "GroupRelayFrames/plain/512/64": 965_000,
	"GroupRelayFrames/plain/8192/1": 235_000, "GroupRelayFrames/plain/8192/8": 1_910_000, "GroupRelayFrames/plain/8192/64": 15_100_000,
	"GroupPaced/1": 438, "GroupPaced/8": 1100, "GroupPaced/64": 3300,
}

// result is what the rounds gave for one bench, by unit.
type result struct {
	name    string
	figures map[string][]float64
}

// results are in the order of their first appearance.
type results struct {
	order  []*result
	byName map[string]*result
}

// parse adds the lines of one run of benches.
func (r *results) parse(in io.Reader) error {
	if r.byName == nil {
		r.byName = make(map[string]*result)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i] // the number of CPUs
		}
		b := r.byName[name]
		if b == nil {
			b = &result{name: name, figures: make(map[string][]float64)}
			r.byName[name] = b
			r.order = append(r.order, b)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("line %q: %w", lines.Text(), err)
			}
			b.figures[fields[i+1]] = append(b.figures[fields[i+1]], v)
		}
	}
	return lines.Err()
}

func (r *result) median(unit string) (float64, bool) {
	if r == nil || len(r.figures[unit]) == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(r.figures[unit]))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}

func duration(ns float64, ok bool) string {
	switch {
	case !ok:
		return ""
	case ns < 10_000:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 10_000_000:
		return fmt.Sprintf("%.1f µs", ns/1000)
	}
	return fmt.Sprintf("%.1f ms", ns/1_000_000)
}

func ratio(a, b float64, ok bool) string {
	if !ok || b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2g", a/b)
}

// table prints one row for each bench, as Markdown.
func (r *results) table(out io.Writer, peer *results) {
	fmt.Fprintln(out, "| bench | ours | ours, CPU | published | CPU / published | peer here | ours / peer |")
	fmt.Fprintln(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, b := range r.order {
		clock, _ := b.median("ns/op")
		cpu, hasCPU := b.median("cpu-ns/op")
		if pacing, ok := b.median("pacing-%"); ok {
			fmt.Fprintf(out, "| %s | on against off: %+.1f %% | | at most +2 %% | | | |\n", b.name, pacing)
			continue
		}
		theirs, known := published[b.name]
		beside, here := peer.byName[b.name].median("ns/op")
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n", b.name, duration(clock, true), duration(cpu, hasCPU),
			duration(theirs, known), ratio(cpu, theirs, known), duration(beside, here), ratio(clock, beside, here))
	}
}

type options struct {
	rounds int
	time   time.Duration
	match  string
	peer   string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 8, "how often all benches are run, in turn")
	flag.DurationVar(&o.time, "time", 25*time.Millisecond, "how long each bench runs in a round")
	flag.StringVar(&o.match, "bench", "Group", "which benches, as go test -bench")
	flag.StringVar(&o.peer, "peer", "", "a file with the same benches of another model, in the form of go test -bench")
	flag.Parse()
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	peer := &results{}
	if o.peer != "" {
		f, err := os.Open(o.peer)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := peer.parse(f); err != nil {
			return fmt.Errorf("%s: %w", o.peer, err)
		}
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "model.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./relay/model")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build of the benches: %w", err)
	}
	ours := &results{}
	for round := range o.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d, load %s\n", round+1, o.rounds, load())
		round := exec.CommandContext(ctx, binary, "-test.run", "^$", "-test.bench", o.match, "-test.benchtime", o.time.String())
		text, err := round.CombinedOutput()
		if err != nil {
			return fmt.Errorf("benches: %w\n%s", err, text)
		}
		if err := ours.parse(strings.NewReader(string(text))); err != nil {
			return err
		}
	}
	ours.table(out, peer)
	fmt.Fprintf(out, "\nMedians of %d rounds; load average at the end %s. \"ours\" is by the clock, \"CPU\" what the process used of it:\n"+
		"where other work shares the machine only that can be compared. Published: the public moq-net model's group benches\n"+
		"of August 2026 on a Ryzen 9 5900XT; for the empty cells nothing was published.\n", o.rounds, load())
	return nil
}

// load is the machine's load average.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}
