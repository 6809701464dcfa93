package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/moqrelay/operator/relay/load"
)

// A table is one scenario file.
type table struct {
	// Table names the file, the results and the page; Title says what is measured.
	Table string `json:"table"`
	Title string `json:"title"`
	// Fanout are flags of `moq-load fanout` for every row, Relay those of the relay.
	Fanout map[string]string `json:"fanout"`
	Relay  map[string]string `json:"relay"`
	// Limits are those of every row that has none of that name itself.
	Limits map[string]limit `json:"limits"`
	Rows   []row            `json:"rows"`
}

// A row is one run.
type row struct {
	Name string `json:"name"`
	// Short puts the row into the short set, where its flags Shorter come last.
	Short   bool              `json:"short"`
	Shorter map[string]string `json:"shorter"`
	Fanout  map[string]string `json:"fanout"`
	Relay   map[string]string `json:"relay"`
	Limits  map[string]limit  `json:"limits"`
	// Peer has another relay than ours in this row.
	Peer *peer `json:"peer"`
}

// A peer is the public Rust relay, whose program -peer names. Rows with it are left
// out without that.
type peer struct {
	// Args are its command line, URL is where it then is.
	Args string `json:"args"`
	URL  string `json:"url"`
}

// A limit bounds one figure of a row.
type limit struct {
	// AtLeast and AtMost are the bounds; one of them is set.
	AtLeast *float64 `json:"atLeast"`
	AtMost  *float64 `json:"atMost"`
	// Seen is what the runs behind the limit have shown, Margin why it is where it is.
	Seen   string `json:"seen"`
	Margin string `json:"margin"`
}

// figures are what a limit may be about, in its unit. None is a time.
var figures = map[string]func(*load.FanoutReport) float64{
	"deliveredPercent": func(r *load.FanoutReport) float64 { return r.DeliveredPercent },
	"lostSessions":     func(r *load.FanoutReport) float64 { return float64(r.Lost) },
	"kibPerViewer":     func(r *load.FanoutReport) float64 { return r.Relay.PerViewer / 1024 },
	"relayDrops":       func(r *load.FanoutReport) float64 { return float64(r.Relay.Drops) },
	"clientDrops":      func(r *load.FanoutReport) float64 { return float64(r.Clients.Drops) },
	"goroutines":       func(r *load.FanoutReport) float64 { return r.Relay.Goroutines },
}

// read reads the scenario files of a folder, in the order of their names.
func read(dir string) ([]table, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no scenario files in %s (%v)", dir, err)
	}
	var tables []table
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var t table
		if err := yaml.UnmarshalStrict(text, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := t.validate(strings.TrimSuffix(filepath.Base(file), ".yaml")); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// validate reports everything that is wrong with a table that was read from a file.
func (t *table) validate(file string) error {
	var all error
	if t.Table != file {
		all = fmt.Errorf("table: %q is not the file's name %q", t.Table, file)
	}
	if len(t.Rows) == 0 {
		all = errors.Join(all, errors.New("rows: there are none"))
	}
	seen := map[string]bool{}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Name == "" || seen[r.Name] {
			all = errors.Join(all, fmt.Errorf("rows[%d].name: %q is empty or there twice", i, r.Name))
		}
		seen[r.Name] = true
		limits := t.limits(r)
		if len(limits) == 0 {
			all = errors.Join(all, fmt.Errorf("row %q: it has no limits", r.Name))
		}
		for name, l := range limits {
			if figures[name] == nil {
				all = errors.Join(all, fmt.Errorf("row %q: limits.%s: there is no such figure", r.Name, name))
			}
			if (l.AtLeast == nil) == (l.AtMost == nil) || l.Seen == "" || l.Margin == "" {
				all = errors.Join(all, fmt.Errorf("row %q: limits.%s: one of atLeast and atMost is wanted, with seen and margin", r.Name, name))
			}
		}
	}
	return all
}

// limits are those of a row: its own before those of the table.
func (t *table) limits(r *row) map[string]limit { return merged(t.Limits, r.Limits) }

// merged are the entries of all maps, later ones first.
func merged[V any](maps ...map[string]V) map[string]V {
	all := map[string]V{}
	for _, m := range maps {
		for name, v := range m {
			all[name] = v
		}
	}
	return all
}

// command is the command line of a row.
func (t *table) command(r *row, o options) []string {
	relay := []string{o.relay, "serve", "--dev", "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0", "--log-level", "error"}
	relay = append(relay, flags(merged(t.Relay, r.Relay))...)
	fanout := merged(t.Fanout, r.Fanout)
	if o.short {
		fanout = merged(fanout, shorter, r.Shorter)
	}
	args := append([]string{o.load, "fanout"}, flags(fanout)...)
	args = append(args, o.pins...)
	if r.Peer != nil {
		return append(args, "--start", o.peer+" "+r.Peer.Args, r.Peer.URL)
	}
	return append(args, "--start", strings.Join(relay, " "))
}

// shorter are flags of every row in the short set.
var shorter = map[string]string{"duration": "4s", "idle": "1s", "history": "2s"}

// flags writes flags in the order of their names.
func flags(values map[string]string) []string {
	var args []string
	for name, value := range values {
		args = append(args, "--"+name+"="+value)
	}
	slices.Sort(args)
	return args
}

// broken is an error that names every limit that the results of a row break.
func (t *table) broken(r *row, report *load.FanoutReport) error {
	var all []string
	for name, l := range t.limits(r) {
		v := figures[name](report)
		switch {
		case l.AtLeast != nil && v < *l.AtLeast:
			all = append(all, fmt.Sprintf("%s is %.4g, less than %g (seen: %s)", name, v, *l.AtLeast, l.Seen))
		case l.AtMost != nil && v > *l.AtMost:
			all = append(all, fmt.Sprintf("%s is %.4g, more than %g (seen: %s)", name, v, *l.AtMost, l.Seen))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return errors.New(strings.Join(all, "; "))
}
