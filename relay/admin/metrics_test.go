package admin

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

// atStart are the lines of a relay that has done nothing yet.
const atStart = `
moq_relay_accept_failures_total{class="connection",listener="tcp"} 0
moq_relay_accept_failures_total{class="exhausted",listener="tcp"} 0
moq_relay_accept_failures_total{class="unknown",listener="tcp"} 0
moq_relay_accept_failures_total{class="connection",listener="status"} 0
moq_relay_accept_failures_total{class="exhausted",listener="status"} 0
moq_relay_accept_failures_total{class="unknown",listener="status"} 0
moq_relay_accept_stalled_seconds{class="connection",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="exhausted",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="unknown",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="connection",listener="status"} 0
moq_relay_accept_stalled_seconds{class="exhausted",listener="status"} 0
moq_relay_accept_stalled_seconds{class="unknown",listener="status"} 0
moq_relay_broadcasts 0
moq_relay_build_info{go_version="GO",version="v0.1.0"} 1
moq_relay_cache_bytes 0
moq_relay_cache_capacity_bytes 0
moq_relay_cache_evicted_bytes_total{part="group"} 0
moq_relay_cache_evicted_bytes_total{part="tail"} 0
moq_relay_cache_evicted_groups_total 0
moq_relay_cache_groups 0
moq_relay_config_reloads_total{result="needs_restart"} 0
moq_relay_config_reloads_total{result="ok"} 0
moq_relay_config_reloads_total{result="rejected"} 0
moq_relay_goaway_sent_total 0
moq_relay_group_streams_reset_total{reason="expired"} 0
moq_relay_groups_total 0
moq_relay_ingest_pause_denied_total 0
moq_relay_ingest_paused_streams 0
moq_relay_ingest_pauses_total 0
moq_relay_routes 0
moq_relay_sessions_closed_total{reason="clean",transport="quic"} 0
moq_relay_sessions_closed_total{reason="clean",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="clean",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="drained",transport="quic"} 0
moq_relay_sessions_closed_total{reason="drained",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="drained",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="lost",transport="quic"} 0
moq_relay_sessions_closed_total{reason="lost",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="lost",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="protocol",transport="quic"} 0
moq_relay_sessions_closed_total{reason="protocol",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="protocol",transport="webtransport"} 0
moq_relay_sessions_draining 0
moq_relay_sessions_opened_total{transport="quic"} 0
moq_relay_sessions_opened_total{transport="websocket"} 0
moq_relay_sessions_opened_total{transport="webtransport"} 0
moq_relay_sessions_refused_total{reason="draining"} 0
moq_relay_sessions_refused_total{reason="forbidden"} 0
moq_relay_sessions_refused_total{reason="unauthorized"} 0
moq_relay_sessions_refused_total{reason="malformed"} 0
moq_relay_sessions_refused_total{reason="overload"} 0
moq_relay_sessions_refused_total{reason="tls"} 0
moq_relay_sessions_refused_total{reason="version"} 0
moq_relay_sessions{transport="quic"} 0
moq_relay_sessions{transport="websocket"} 0
moq_relay_sessions{transport="webtransport"} 0
moq_relay_subscriptions 0
moq_relay_tls_reloads_total{result="ok"} 0
moq_relay_tls_reloads_total{result="rejected"} 0
moq_relay_tracks 0
`

func TestEveryKnownSeriesIsThereFromTheStart(t *testing.T) {
	got := metrics(t, newHandler(nil))
	want := strings.Split(strings.TrimSpace(strings.Replace(atStart, "GO", runtime.Version(), 1)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCountsAreShownUnderTheirLabels(t *testing.T) {
	lines := metrics(t, newHandler(func(f *fake, _ *Options) {
		f.doc.Draining, f.doc.Sessions = true, 5
		f.doc.Cache = status.Cache{Bytes: 100, Capacity: 200}
		f.doc.SocketBuffers = &status.SocketBuffers{
			Receive: status.Buffer{Requested: 40, Granted: 20}, Send: status.Buffer{Requested: 30, Granted: 10}, Drops: 7,
		}
		f.stats = Stats{
			Sessions:       map[string]int64{"quic": 2, "carrier pigeon": 9},
			Closed:         map[string]map[string]int64{"websocket": {"lost": 3}},
			Refused:        map[string]int64{"overload": 4},
			ReadersExpired: 6, EvictedTailBytes: 8, Pauses: 11, Groups: 12,
			ConfigReloads: map[string]int64{"rejected": 1},
		}
	}))
	for _, want := range []string{
		`moq_relay_sessions_draining 5`,
		`moq_relay_sessions{transport="quic"} 2`,
		`moq_relay_sessions_closed_total{reason="lost",transport="websocket"} 3`,
		`moq_relay_sessions_refused_total{reason="overload"} 4`,
		`moq_relay_group_streams_reset_total{reason="expired"} 6`,
		`moq_relay_cache_evicted_bytes_total{part="tail"} 8`,
		`moq_relay_cache_bytes 100`,
		`moq_relay_cache_capacity_bytes 200`,
		`moq_relay_ingest_pauses_total 11`,
		`moq_relay_groups_total 12`,
		`moq_relay_config_reloads_total{result="rejected"} 1`,
		`moq_relay_udp_socket_buffer_bytes{direction="receive",kind="requested"} 40`,
		`moq_relay_udp_socket_buffer_bytes{direction="receive",kind="granted"} 20`,
		`moq_relay_udp_socket_buffer_bytes{direction="send",kind="requested"} 30`,
		`moq_relay_udp_socket_buffer_bytes{direction="send",kind="granted"} 10`,
		`moq_relay_udp_packets_dropped_total{socket="0"} 7`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not there", want)
		}
	}
	if all := strings.Join(lines, "\n"); strings.Contains(all, "pigeon") {
		t.Error("an unknown word has become a label")
	}
}

func TestCertificatesOfOneNameAreOneSeries(t *testing.T) {
	lines := metrics(t, newHandler(func(f *fake, _ *Options) {
		f.doc.Certificates = []status.Certificate{{Name: "tls", NotAfter: time.Now().Add(-time.Hour)}, {Name: "tls"}}
	}))
	var found []string
	for _, line := range lines {
		if strings.HasPrefix(line, "moq_relay_tls_certificate_expiry_seconds") {
			found = append(found, line)
		}
	}
	if len(found) != 1 || !strings.Contains(found[0], `{certificate="tls"} -36`) {
		t.Errorf("series are %v, want one of about -3600", found)
	}
}

func TestGoAndProcessMetricsAreThere(t *testing.T) {
	_, body := ask(newHandler(nil), "GET", "/metrics", "192.0.2.1:5000")
	for _, name := range []string{"\ngo_goroutines ", "\nprocess_resident_memory_bytes "} {
		if !strings.Contains(body, name) {
			t.Errorf("%q is not there", name)
		}
	}
}
