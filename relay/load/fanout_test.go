package load

import (
	"strings"
	"testing"
	"time"
)

func TestACrowdGetsEveryFrameOverEachTransport(t *testing.T) {
	for _, kind := range []string{"quic", "webtransport", "websocket"} {
		t.Run(kind, func(t *testing.T) {
			report, err := Fanout(t.Context(), FanoutOptions{
				Target: target(t, startRelay(t), kind, ""), Publishers: 2, Viewers: 5, Stalled: 1, Size: 1000, Keyframe: 5000, Rate: 20,
				Idle: 100 * time.Millisecond, Duration: time.Second,
				MaxLatency: time.Minute, History: time.Minute, Drain: time.Minute, settle: time.Millisecond, // however slow the machine is
			})
			if err != nil {
				t.Fatal(err)
			}
			// 5 viewers, 20 frames each, one of which is a keyframe: 5 * (19*1000 + 5000) bytes.
			if report.Frames != 100 || report.Expected != 100 || report.Bytes != 120_000 || report.DeliveredPercent != 100 || report.Lost != 0 {
				t.Errorf("%+v", report)
			}
			if report.Transport != kind || report.Viewers != 5 || report.Stalled != 1 || report.Bystander == nil || report.Relay != nil {
				t.Errorf("%+v", report)
			}
			if report.Latency.P50 <= 0 || report.Latency.Max < report.Latency.P99 || report.Stall <= 0 || report.PublisherRate <= 0 {
				t.Errorf("latency %+v, stall %v, publisher %v/s", report.Latency, report.Stall, report.PublisherRate)
			}
		})
	}
}

func TestACrowdThatCannotConnectIsAnErrorThatNamesWho(t *testing.T) {
	_, err := Fanout(t.Context(), FanoutOptions{Target: Target{URL: "ws://127.0.0.1:1"}, Viewers: 2, Size: 100, Rate: 10, Duration: time.Second})
	if err == nil || !strings.Contains(err.Error(), `"room/0": connect over websocket: `) {
		t.Errorf("%v, want an error that names the broadcast and the transport", err)
	}
}
