package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/load"
)

func TestTheScenarioFilesAreValid(t *testing.T) {
	tables, err := read("scenarios")
	if err != nil {
		t.Fatal(err)
	}
	short := 0
	for _, table := range tables {
		for _, row := range table.Rows {
			if row.Short {
				short++
			}
		}
	}
	if len(tables) < 5 || short < 5 || short > 8 {
		t.Errorf("%d tables with %d short rows; want 5 tables at least, and 5 to 8 short rows", len(tables), short)
	}
}

// of is a table with one row and one limit.
func of(name string, l limit) table {
	return table{Table: "a", Rows: []row{{Name: "r", Limits: map[string]limit{name: l}}}}
}

func TestALimitNamesAFigureABoundAndWhereItComesFrom(t *testing.T) {
	ten := 10.0
	for _, r := range []struct {
		table table
		want  string
	}{
		{of("p99Ms", limit{AtMost: &ten, Seen: "9", Margin: "m"}), "limits.p99Ms: there is no such figure"},
		{of("relayDrops", limit{Seen: "9", Margin: "m"}), "one of atLeast and atMost is wanted"},
		{of("relayDrops", limit{AtLeast: &ten, AtMost: &ten, Seen: "9", Margin: "m"}), "one of atLeast and atMost is wanted"},
		{of("relayDrops", limit{AtMost: &ten, Margin: "m"}), "with seen and margin"},
		{table{Table: "b"}, `table: "b" is not the file's name "a"`},
		{table{Table: "a"}, "rows: there are none"},
		{table{Table: "a", Rows: []row{{Name: "r"}}}, `row "r": it has no limits`},
	} {
		if err := r.table.validate("a"); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%+v: %v; want %q", r.table, err, r.want)
		}
	}
}

func TestARowsResultsAreHeldAgainstItsOwnLimitsAndTheTables(t *testing.T) {
	least, most, more := 99.0, 10.0, 20.0
	table := table{Limits: map[string]limit{
		"deliveredPercent": {AtLeast: &least, Seen: "100"}, "relayDrops": {AtMost: &most, Seen: "0"},
	}}
	row := row{Limits: map[string]limit{"relayDrops": {AtMost: &more, Seen: "15"}}}
	report := &load.FanoutReport{DeliveredPercent: 99, Relay: &load.RelayUsage{Drops: 20}}
	if err := table.broken(&row, report); err != nil {
		t.Errorf("at the bounds: %v", err)
	}
	report.DeliveredPercent, report.Relay.Drops = 98.9, 21
	err := table.broken(&row, report)
	if want := "deliveredPercent is 98.9, less than 99 (seen: 100); relayDrops is 21, more than 20 (seen: 15)"; err == nil || err.Error() != want {
		t.Errorf("beyond them: %v\nwant %s", err, want)
	}
}

func TestARowIsOneCommand(t *testing.T) {
	table := table{Fanout: map[string]string{"rate": "30", "size": "8Ki"}, Relay: map[string]string{"x": "1"}}
	row := row{Fanout: map[string]string{"viewers": "50", "rate": "15"}, Shorter: map[string]string{"viewers": "5"}}
	got := quoted(table.command(&row, options{relay: "relay", load: "load", pins: []string{"--cpus=1"}}))
	want := "load fanout --rate=15 --size=8Ki --viewers=50 --cpus=1 --start " +
		"'relay serve --dev --listen 127.0.0.1:0 --status-listen 127.0.0.1:0 --log-level error --x=1'"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	short := table.command(&row, options{relay: "relay", load: "load", short: true})
	if !slices.Contains(short, "--viewers=5") || !slices.Contains(short, "--duration=4s") {
		t.Errorf("the short row is %q", short)
	}
}
