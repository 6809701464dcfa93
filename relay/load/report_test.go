package load

import (
	"strings"
	"testing"
	"time"
)

func TestAReportAddsUpWhatViewersSaw(t *testing.T) {
	r := FanoutReport{Relay: &RelayUsage{BaseBytes: 10 << 20, base: use{relay: usage{drops: 5}, vitals: vitals{goroutines: 20}}}}
	o := FanoutOptions{Target: Target{URL: "moqt://h:1"}, Publishers: 1, Viewers: 2, Stalled: 1, Size: 1000, Rate: 10}
	before := use{relay: usage{cpu: 7 * time.Second}, clients: usage{cpu: time.Second, drops: 1}, machine: 100 * time.Second}
	after := use{
		relay:   usage{cpu: 9 * time.Second, peak: 12 << 20, drops: 8},
		clients: usage{cpu: 2 * time.Second, drops: 3}, machine: 105 * time.Second,
		vitals: vitals{goroutines: 30, mallocs: 60, mallocBytes: 3000},
	}
	r.window(o, before, after, 4*time.Second)
	for range 2 {
		s := newSeat()
		for i := range 15 {
			s.took(Place{0, uint32(i)}, 1000, noon, noon.Add(time.Duration(i+1)*time.Millisecond))
		}
		if err := r.add(s, 20, noon); err != nil {
			t.Fatal(err)
		}
	}
	r.finish(40)
	u := r.Relay
	if r.Frames != 30 || r.DeliveredPercent != 75 || r.Bytes != 30_000 || r.PublisherRate != 5 {
		t.Errorf("frames %d, %v %%, %d bytes, publisher %v/s; want 30, 75, 30000, 5", r.Frames, r.DeliveredPercent, r.Bytes, r.PublisherRate)
	}
	// 2 s for 30,000 bytes; 2 MiB for the two that came later; of 5 s that the machine was busy 2 were others'.
	if u.CPUSeconds != 2 || int(u.CPUPerGB) != 66666 || u.PerViewer != 1<<20 || u.Drops != 3 || r.Clients.Drops != 2 || r.Others != 0.5 {
		t.Errorf("relay %+v, clients %+v, others %v", u, r.Clients, r.Others)
	}
	if u.Goroutines != 5 || u.Allocations != 2 || u.AllocatedBytes != 100 {
		t.Errorf("%v goroutines for each viewer, %v allocations of %v bytes for each frame; want 5, 2, 100", u.Goroutines, u.Allocations, u.AllocatedBytes)
	}
	if r.Latency.Max != 15 || r.Latency.P50 < 7 || r.Latency.P50 > 9 {
		t.Errorf("latency %+v, want a median of 8 ms and 15 ms at most", r.Latency)
	}
}

func TestMetricsAreSumsOfTheirSeries(t *testing.T) {
	text := "# HELP a x\na 1\na{b=\"c d\"} 2.5\nab 7\n"
	if got := metric(text, "a"); got != 3.5 {
		t.Errorf("a is %v, want 3.5", got)
	}
}

func TestAdviceFollowsWhatWentWrong(t *testing.T) {
	target := Target{URL: "ws://127.0.0.1:1"}
	if advice := Advice(target.try(t.Context())); !strings.HasPrefix(advice, "is a relay there?") {
		t.Errorf("with nobody listening the advice is %q", advice)
	}
	if advice := Advice(corrupt(Place{}, "x")); !strings.Contains(advice, "sub --print") {
		t.Errorf("for a wrong byte the advice is %q", advice)
	}
	_, err := Start(t.Context(), StartOptions{Command: []string{"/no/such/relay"}})
	if err == nil || !strings.Contains(Advice(err), "name the relay's program by its path") {
		t.Errorf("for a program that is not there (%v) the advice is %q", err, Advice(err))
	}
}
