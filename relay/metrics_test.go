package relay

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// sumTraffic adds up what was counted over all transports and tiers.
func sumTraffic(server *running, read func(admin.Traffic) int64) (sum int64) {
	for _, t := range server.Stats().Traffic {
		sum += read(t)
	}
	return sum
}

// closedOf counts the ended sessions of a transport by reason.
func closedOf(server *running, kind string) map[string]int64 {
	out := make(map[string]int64)
	for _, t := range server.Stats().Traffic {
		if t.Transport == kind {
			for reason, n := range t.Closed {
				out[reason] += n
			}
		}
	}
	return out
}

// metric is a metric as a scrape or the documentation has it.
type metric struct{ kind, labels string }

var sample = regexp.MustCompile(`^(moq_relay_[a-z0-9_]+)(?:\{(.*)\})? `)

// scraped returns the metrics of /metrics whose names begin with moq_relay_.
func scraped(t *testing.T, server *running) map[string]metric {
	t.Helper()
	_, body, _ := get(t, dialStatus(t, server)+"/metrics")
	kinds, out := make(map[string]string), make(map[string]metric)
	for line := range strings.Lines(body) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "TYPE" {
			kinds[fields[2]] = fields[3]
		}
		found := sample.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		name := found[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); kinds[base] == "histogram" {
				name = base
			}
		}
		out[name] = metric{kinds[name], labelNames(found[2])}
	}
	return out
}

var labelName = regexp.MustCompile(`([a-z_]+)="`)

// labelNames returns the names in their order; le is the histogram's own.
func labelNames(text string) string {
	var names []string
	for _, found := range labelName.FindAllStringSubmatch(text, -1) {
		if found[1] != "le" {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// documented returns the metrics of the table in docs/operations.md.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]metric)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`moq_relay_") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		if _, twice := out[name]; twice {
			t.Errorf("%s has two rows", name)
		}
		labels := strings.Split(strings.Trim(strings.ReplaceAll(cells[3], "`", ""), " "), ", ")
		slices.Sort(labels)
		out[name] = metric{strings.TrimSpace(cells[2]), strings.Join(labels, ", ")}
	}
	return out
}

func TestTheTableOfMetricsIsWhatARunningRelayShows(t *testing.T) {
	got, want := scraped(t, newServer(t, nil)), documented(t)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s %v is not in docs/operations.md", name, got[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("docs/operations.md says %s %v, the relay shows %v", name, want[name], got[name])
		}
	}
	if len(want) < 30 {
		t.Errorf("only %d metrics were compared", len(want))
	}
}

func TestTheHundredAndFirstTierIsAnother(t *testing.T) {
	all := newTraffic()
	first := all.of(transport.QUIC, "tier-0")
	for i := range 500 {
		all.of(transport.QUIC, "tier-"+strings.Repeat("x", i))
	}
	if all.of(transport.QUIC, "tier-0") != first || all.of(transport.WebSocket, "tier-0") == first {
		t.Error("a tier has not the same counters each time, on each transport its own")
	}
	tiers := make(map[string]bool)
	for key := range all.all() {
		tiers[key.tier] = true
	}
	if len(tiers) != mostTiers+1 || !tiers[otherTier] || !tiers[admin.DefaultTier] {
		t.Errorf("there are %d tiers, want 100 and other", len(tiers))
	}
}

func TestEveryReasonOfTheSessionsIsOneOfTheMetrics(t *testing.T) {
	c := &tierCounters{}
	c.Refused.Add(errDrained)
	c.Resets.Add(errDrained)
	read := c.read(trafficKey{transport.QUIC, "a"})
	for _, row := range []struct {
		counts map[string]int64
		words  []string
	}{
		{read.Subscriber.Errors, admin.RequestErrors},
		{read.Resets, admin.ResetReasons},
		{read.Strays, admin.StrayReasons},
	} {
		if got := slices.Sorted(maps.Keys(row.counts)); !slices.Equal(got, slices.Sorted(slices.Values(row.words))) {
			t.Errorf("counted are %v, shown %v", got, row.words)
		}
	}
	if read.Subscriber.Errors["other"] != 1 || read.Resets["cancelled"] != 1 {
		t.Errorf("an unknown reason is counted as %v and %v, want other and cancelled", read.Subscriber.Errors, read.Resets)
	}
}

// What sessions count is shown: a source that is not connected would stay 0.
func TestOneGroupToOneViewerIsCountedOnBothSides(t *testing.T) {
	server := newServer(t, nil)
	publisher := newClient(t, server.dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	newStudio(t, publisher.origin, "room", func(ctx context.Context, p *model.Producer) error {
		w, err := p.Group(0, model.Window{})
		for i := 0; i < 3 && err == nil; i++ {
			err = writeFrame(ctx, w, pattern(100, byte(i)))
		}
		if err == nil {
			err = w.Finish()
		}
		p.Finish(1)
		p.Close()
		return err
	})
	viewer := newClient(t, server.dial(t, transport.WebSocket, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room")
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	groups, err := watch(ctx, viewer.origin, "room", "video")
	if !isEOF(err) || len(groups) != 1 || len(groups[0]) != 3 {
		t.Fatalf("the viewer got %d groups, %v", len(groups), err)
	}
	publisher.conn.Close(0, "")
	viewer.conn.Close(0, "")
	await(ctx, t, "the sessions to end", func() bool { return server.Status().Sessions == 0 })
	var from, to admin.Flow
	var first uint64
	for _, row := range server.Stats().Traffic {
		switch row.Transport {
		case "quic":
			from = row.Publisher
		case "websocket":
			to, first = row.Subscriber, row.FirstFrame.Count
		}
	}
	const bytes = 3 * (1 + 2 + 100) // delta 0, a length of two bytes, the payload
	if from.Bytes != bytes || from.Frames != 3 || from.Groups != 1 || from.Opened != 1 || from.Subscriptions != 0 {
		t.Errorf("from the publisher are counted %+v, want %d bytes, 3 frames, 1 group, 1 subscription that has ended", from, bytes)
	}
	if to.Bytes != bytes || to.Frames != 3 || to.Groups != 1 || to.Opened != 1 || to.Subscriptions != 0 || first != 1 {
		t.Errorf("to the viewer are counted %+v and %d first frames, want %d bytes, 3 frames, 1 group, 1 subscription that has ended, 1 first frame", to, first, bytes)
	}
	if n := server.Stats().Forward.Count; n != 1 {
		t.Errorf("%d delays through the relay are measured, want 1", n)
	}
}
