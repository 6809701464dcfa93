package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay"
	"github.com/moqrelay/operator/relay/config"
)

// startRelay runs a relay in this process, with the defaults for development,
// until the test ends. It returns HOST:PORT.
func startRelay(t *testing.T) string {
	t.Helper()
	base := config.Development()
	base.Listen, base.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	base.Log.Level = "debug"
	loaded, err := config.Load(config.Source{Base: &base})
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	server, err := relay.New(relay.Options{Loaded: loaded, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("the relay: %v", err)
		}
		if t.Failed() {
			t.Logf("the relay's log:\n%s", log)
		}
	})
	return addresses.TCP
}

// logBuffer collects what several goroutines log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// target is a relay reached over a transport.
func target(t *testing.T, address, kind, version string) Target {
	t.Helper()
	target, err := TargetText{URL: "http://" + address + "/room", Transport: kind, Version: version}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// publishing publishes while the test goes on; wait gives how it ended.
func publishing(t *testing.T, o PublishOptions) (wait func() error) {
	t.Helper()
	o.Broadcast, o.Track, o.MaxLatency, o.Linger = "cam", "video", time.Minute, time.Minute
	ended := make(chan error, 1)
	go func() { ended <- Publish(t.Context(), o) }()
	return func() error { return <-ended }
}

func TestAViewerGetsEveryByteOverEachTransport(t *testing.T) {
	for _, kind := range []string{"quic", "webtransport", "websocket"} {
		t.Run(kind, func(t *testing.T) {
			to := target(t, startRelay(t), kind, "") // of its own: an old route to the same name lives on for a moment
			wait := publishing(t, PublishOptions{
				Targets: []Target{to}, Wait: true,
				Content: &Checked{Groups: 6, Frames: 5, Sizes: Sizes{Min: 1, Max: 100_000}},
			})
			var mu sync.Mutex
			seen := map[Place]int{}
			var shown bytes.Buffer
			log := &logBuffer{}
			report, err := View(t.Context(), ViewOptions{
				Log:    slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				Target: to, Broadcast: "cam", Track: "video", MaxLatency: time.Minute, Progress: &Progress{Out: &shown},
				OnFrame: func(p Place, payload []byte) {
					mu.Lock()
					defer mu.Unlock()
					seen[p] = len(payload)
				},
			})
			if err != nil {
				t.Fatalf("%v; %s%s", err, &shown, log)
			}
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if report.Frames != 30 || report.Groups != 6 || !report.Ended || report.Cut+report.Missing+report.Corrupt != 0 {
				t.Errorf("report %+v, want 30 frames of 6 groups and the end", report)
			}
			if len(seen) != 30 || seen[Place{0, 0}] != 1 {
				t.Errorf("%d places seen, the first with %d bytes; want 30 and 1", len(seen), seen[Place{0, 0}])
			}
			if !strings.Contains(shown.String(), "over "+kind+", moq-lite-06") {
				t.Errorf("shown: %s", &shown)
			}
		})
	}
}

// broken is content with one wrong byte in its third frame.
type broken struct{ Checked }

func (b *broken) Payload(now time.Time) []byte {
	p := b.Checked.Payload(now)
	if b.next == 3 {
		p[60] ^= 1
	}
	return p
}

func TestAWrongByteFailsTheView(t *testing.T) {
	to := target(t, startRelay(t), "quic", "")
	wait := publishing(t, PublishOptions{
		Targets: []Target{to}, Wait: true, Content: &broken{Checked{Groups: 1, Frames: 5, Sizes: Sizes{100, 100}}},
	})
	report, err := View(t.Context(), ViewOptions{Target: to, Broadcast: "cam", Track: "video", MaxLatency: time.Minute})
	if !errors.Is(err, ErrCorrupt) || report.Corrupt != 1 || report.Frames != 4 {
		t.Errorf("%v, %+v; want one corrupt frame of five", err, report)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// gappy is content without its second group.
type gappy struct{ Checked }

func (g *gappy) Next() (Frame, bool) {
	f, ok := g.Checked.Next()
	if ok && f.Group == 1 {
		return g.Next()
	}
	return f, ok
}

func TestAMissingGroupFailsTheViewUnlessItIsLossy(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		to := target(t, startRelay(t), "quic", "")
		wait := publishing(t, PublishOptions{
			Targets: []Target{to}, Wait: true, Content: &gappy{Checked{Groups: 3, Frames: 2, Sizes: Sizes{100, 100}}},
		})
		report, err := View(t.Context(), ViewOptions{Target: to, Broadcast: "cam", Track: "video", MaxLatency: time.Minute, Lossy: lossy})
		if report.Missing != 1 || report.Frames != 4 || (err == nil) != lossy {
			t.Errorf("lossy %v: %v, %+v; want 4 frames and one group missing", lossy, err, report)
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestAViewThatWantsMoreFramesThanThereAreFails(t *testing.T) {
	to := target(t, startRelay(t), "webtransport", "")
	wait := publishing(t, PublishOptions{
		Targets: []Target{to}, Wait: true, Content: &Checked{Groups: 1, Frames: 3, Sizes: Sizes{100, 100}},
	})
	_, err := View(t.Context(), ViewOptions{Target: to, Broadcast: "cam", Track: "video", Frames: 4})
	if err == nil || err.Error() != "the track ended after 3 of 4 frames" {
		t.Errorf("view: %v", err)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestAPublisherHoldsUntilThereIsALineAndTheClockIsShownWithItsLatency(t *testing.T) {
	to := target(t, startRelay(t), "quic", "")
	release, line := io.Pipe()
	wait := publishing(t, PublishOptions{
		Targets: []Target{to}, Content: &Clock{Rate: 20, Ticks: 10}, Wait: true, HoldAfter: []int{2}, Release: release,
	})
	var shown bytes.Buffer
	first := make(chan struct{})
	go func() {
		<-first
		_, _ = io.WriteString(line, "go\n")
	}()
	report, err := View(t.Context(), ViewOptions{
		Target: to, Broadcast: "cam", Track: "video", Print: &shown, Lossy: true,
		OnFrame: func(p Place, _ []byte) {
			if p.Frame == 1 {
				close(first)
			}
		},
	})
	if err != nil || report.Frames != 10 {
		t.Errorf("view: %v, %d frames, want 10", err, report.Frames)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(shown.String(), " latency "); lines != 10 {
		t.Errorf("%d lines with a latency, want 10:\n%s", lines, &shown)
	}
}

func TestARelayThatIsNotThereIsAnErrorThatNamesTheWay(t *testing.T) {
	to := Target{URL: "ws://127.0.0.1:1"}
	_, err := View(t.Context(), ViewOptions{Target: to, Broadcast: "cam", Track: "video"})
	if err == nil || !strings.HasPrefix(err.Error(), "connect over websocket: ") {
		t.Errorf("view: %v", err)
	}
	err = Publish(t.Context(), PublishOptions{Targets: []Target{to}, Broadcast: "cam", Track: "video", Content: &Checked{Frames: 1}})
	if err == nil || !strings.HasPrefix(err.Error(), "connect over websocket: ") {
		t.Errorf("publish: %v", err)
	}
}

func TestAViewEndsWellWhenItsContextDoes(t *testing.T) {
	to := target(t, startRelay(t), "quic", "")
	ctx, cancel := context.WithCancel(t.Context())
	publishing(t, PublishOptions{Targets: []Target{to}, Content: &Checked{Frames: 5, Sizes: Sizes{100, 100}, Rate: 100}})
	report, err := View(ctx, ViewOptions{
		Target: to, Broadcast: "cam", Track: "video", MaxLatency: time.Minute,
		OnFrame: func(Place, []byte) { cancel() },
	})
	if err != nil || report.Frames == 0 {
		t.Errorf("view: %v, %+v", err, report)
	}
}
