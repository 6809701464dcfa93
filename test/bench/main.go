package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/load"
)

// options are the command line.
type options struct {
	relay, load string // programs
	peer        string // that of the public Rust relay; empty: its rows are left out
	scenarios   string // folder
	record      string // folder for the results; empty: they are not kept
	only        string // names of tables, by commas; empty: all
	short       bool
	pins        []string // flags of moq-load that pin the two sides
}

func main() {
	var o options
	flag.StringVar(&o.relay, "relay", "bin/moq-relay", "the relay's program")
	flag.StringVar(&o.load, "load", "bin/moq-load", "the load generator's program")
	flag.StringVar(&o.peer, "peer", "", "the public Rust relay's program; without it its rows are left out")
	flag.StringVar(&o.scenarios, "scenarios", "test/bench/scenarios", "folder of the scenario files")
	flag.StringVar(&o.record, "record", "", "folder that results are kept in as JSON")
	flag.StringVar(&o.only, "only", "", "names of tables, by commas; empty: all")
	flag.BoolVar(&o.short, "short", false, "run the short rows alone")
	flag.Parse()
	if runtime.NumCPU() > 1 {
		o.pins = []string{"--relay-cpus=0", "--cpus=1"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// run runs the tables that are asked for.
func (o options) run(ctx context.Context) error {
	tables, err := read(o.scenarios)
	if err != nil {
		return err
	}
	var failures []error
	ran := 0
	for _, t := range tables {
		if o.only != "" && !strings.Contains(","+o.only+",", ","+t.Table+",") {
			continue
		}
		n, err := o.table(ctx, t)
		ran += n
		failures = append(failures, err)
	}
	if ran == 0 {
		return fmt.Errorf("no row was run: -only %q names none of the tables in %s", o.only, o.scenarios)
	}
	return errors.Join(failures...)
}

// results are what is kept of a table.
type results struct {
	Table   string   `json:"table"`
	Title   string   `json:"title"`
	Command string   `json:"command"`
	Commit  string   `json:"commit"`
	Date    string   `json:"date"`
	Machine string   `json:"machine"`
	Rows    []result `json:"rows"`
}

// result is one row.
type result struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Report  load.FanoutReport `json:"report"`
}

// table runs the rows of a table and returns how many.
func (o options) table(ctx context.Context, t table) (ran int, _ error) {
	kept := results{Table: t.Table, Title: t.Title, Command: "make load-full ONLY=" + t.Table, Commit: commit(ctx), Date: time.Now().UTC().Format(time.RFC3339), Machine: machine()}
	var failures []error
	for i := range t.Rows {
		r := &t.Rows[i]
		if o.short && !r.Short || r.Peer != nil && o.peer == "" {
			continue
		}
		if ran == 0 {
			fmt.Printf("\n%s (%s%s)\n%s\n", t.Title, t.Table, map[bool]string{true: ", smaller and shorter than the names say"}[o.short], header)
		}
		ran++
		command := t.command(r, o)
		report, others, err := measure(ctx, command)
		if err == nil {
			fmt.Println(line(r.Name, report))
			err = t.broken(r, report)
			kept.Rows = append(kept.Rows, result{r.Name, quoted(command), *report})
		}
		if err != nil && others > othersMost && !errors.Is(err, errMistake) {
			fmt.Printf("not judged, as %.2f processors were busy with other work: %s: %v\n", others, r.Name, err)
		} else if err != nil {
			failures = append(failures, fmt.Errorf("%s, %s: %w", t.Table, r.Name, err))
		}
	}
	if err := errors.Join(failures...); err != nil || o.record == "" || ran == 0 {
		return ran, err
	}
	return ran, kept.write(o.record)
}

// othersMost is how many processors may be busy with other work in a run that is
// judged: a relay that does not get its processor loses frames for no fault of its own.
const othersMost = 0.3

// exitUsage is moq-load's exit code for a command line that makes no sense.
const exitUsage = 2

// errMistake says that a scenario file asks for what moq-load does not do.
var errMistake = errors.New("the command line makes no sense")

// measure runs one row. others is how many processors were busy with something else.
func measure(ctx context.Context, command []string) (_ *load.FanoutReport, others float64, _ error) {
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "--json=-", "--quiet")...) //nolint:gosec // from the scenario files
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	began, busy := time.Now(), load.Busy()
	out, err := cmd.Output()
	if state := cmd.ProcessState; state != nil {
		ours := state.UserTime() + state.SystemTime() // with the relay's, its child
		others = (load.Busy() - busy - ours).Seconds() / time.Since(began).Seconds()
	}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitUsage {
		err = errMistake
	}
	if err != nil {
		return nil, others, fmt.Errorf("%s: %w: %s", quoted(command), err, bytes.TrimSpace(said.Bytes()))
	}
	var report load.FanoutReport
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, others, fmt.Errorf("%s: its results: %w", quoted(command), err)
	}
	if report.Relay == nil {
		return nil, others, fmt.Errorf("%s: the relay was not measured", quoted(command))
	}
	return &report, others, nil
}

// quoted is a command line as a shell takes it.
func quoted(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		if words[i] = word; strings.ContainsRune(word, ' ') {
			words[i] = "'" + word + "'"
		}
	}
	return strings.Join(words, " ")
}

const header = "row                        delivered  lost | p50 ms  p99 ms  max ms  stall ms | CPU s/GB  cores | peak MiB  KiB/viewer | drops relay, clients | bystander p99 idle, busy | frames/s | load, others"

// line is a row as text.
func line(name string, r *load.FanoutReport) string {
	var idle, busy float64
	if b := r.Bystander; b != nil {
		idle, busy = b.Idle.P99, b.Busy.P99
	}
	u := r.Relay
	return fmt.Sprintf("%-26s %8.2f%% %5d | %6.1f %7.1f %7.1f %9.0f | %8.1f  %5.2f | %8.1f %11.0f | %11d %8d | %16.1f, %6.1f | %8.1f | %.2f, %.2f",
		name, r.DeliveredPercent, r.Lost, r.Latency.P50, r.Latency.P99, r.Latency.Max, r.Stall,
		u.CPUPerGB, u.CPUSeconds/r.Seconds, float64(u.PeakBytes)/(1<<20), u.PerViewer/1024,
		u.Drops, r.Clients.Drops, idle, busy, r.PublisherRate, r.LoadAverage, r.Others)
}

// write keeps the results.
func (r results) write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Table+".json"), append(b, '\n'), 0o666)
}

// commit is what the programs were built from.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine is the processor, how many there are, and the kernel.
func machine() string {
	model := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d × %s, Linux %s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(release)), runtime.Version())
}
