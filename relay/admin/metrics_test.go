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
moq_relay_accept_failures_total{class="connection",listener="status"} 0
moq_relay_accept_failures_total{class="connection",listener="tcp"} 0
moq_relay_accept_failures_total{class="exhausted",listener="status"} 0
moq_relay_accept_failures_total{class="exhausted",listener="tcp"} 0
moq_relay_accept_failures_total{class="unknown",listener="status"} 0
moq_relay_accept_failures_total{class="unknown",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="connection",listener="status"} 0
moq_relay_accept_stalled_seconds{class="connection",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="exhausted",listener="status"} 0
moq_relay_accept_stalled_seconds{class="exhausted",listener="tcp"} 0
moq_relay_accept_stalled_seconds{class="unknown",listener="status"} 0
moq_relay_accept_stalled_seconds{class="unknown",listener="tcp"} 0
moq_relay_announcements_discarded_total 0
moq_relay_announcements_total{role="publisher",tier="open"} 0
moq_relay_announcements_total{role="subscriber",tier="open"} 0
moq_relay_broadcasts 0
moq_relay_buffer_bytes 0
moq_relay_build_info{go_version="GO",version="v0.1.0"} 1
moq_relay_bytes_total{role="publisher",tier="open"} 0
moq_relay_bytes_total{role="subscriber",tier="open"} 0
moq_relay_cache_bytes 0
moq_relay_cache_capacity_bytes 0
moq_relay_cache_evicted_bytes_total{reason="age"} 0
moq_relay_cache_evicted_bytes_total{reason="capacity"} 0
moq_relay_cache_evicted_bytes_total{reason="tail"} 0
moq_relay_cache_evicted_groups_total{reason="age"} 0
moq_relay_cache_evicted_groups_total{reason="capacity"} 0
moq_relay_cache_evicted_groups_total{reason="tail"} 0
moq_relay_cache_fetch_total{result="hit"} 0
moq_relay_cache_fetch_total{result="joined"} 0
moq_relay_cache_fetch_total{result="miss"} 0
moq_relay_cache_fetch_total{result="not_found"} 0
moq_relay_cache_groups 0
moq_relay_config_reloads_total{result="needs_restart"} 0
moq_relay_config_reloads_total{result="ok"} 0
moq_relay_config_reloads_total{result="rejected"} 0
moq_relay_datagrams_dropped_total{reason="age"} 0
moq_relay_datagrams_dropped_total{reason="queue"} 0
moq_relay_datagrams_dropped_total{reason="size"} 0
moq_relay_datagrams_total{role="publisher",tier="open"} 0
moq_relay_datagrams_total{role="subscriber",tier="open"} 0
moq_relay_egress_pause_seconds_total 0
moq_relay_egress_pauses_total 0
moq_relay_expired_bytes_total{tier="open"} 0
moq_relay_fetches_total{role="publisher",tier="open"} 0
moq_relay_fetches_total{role="subscriber",tier="open"} 0
moq_relay_first_frame_seconds_bucket{le="+Inf"} 0
moq_relay_first_frame_seconds_count 0
moq_relay_first_frame_seconds_sum 0
moq_relay_forward_seconds_bucket{le="+Inf"} 0
moq_relay_forward_seconds_count 0
moq_relay_forward_seconds_sum 0
moq_relay_frames_total{role="publisher",tier="open"} 0
moq_relay_frames_total{role="subscriber",tier="open"} 0
moq_relay_goaway_received_total 0
moq_relay_goaway_sent_total 0
moq_relay_group_streams_reset_total{reason="cancelled"} 0
moq_relay_group_streams_reset_total{reason="evicted"} 0
moq_relay_group_streams_reset_total{reason="expired"} 0
moq_relay_group_streams_reset_total{reason="lagged"} 0
moq_relay_group_streams_reset_total{reason="too_large"} 0
moq_relay_group_streams_reset_total{reason="upstream"} 0
moq_relay_groups_open 0
moq_relay_groups_total{role="publisher",tier="open"} 0
moq_relay_groups_total{role="subscriber",tier="open"} 0
moq_relay_ingest_pause_denied_total 0
moq_relay_ingest_pause_seconds_total 0
moq_relay_ingest_paused_streams 0
moq_relay_ingest_pauses_total 0
moq_relay_routes 0
moq_relay_sessions_closed_total{reason="clean",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="clean",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="clean",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="drained",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="drained",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="drained",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="expired",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="expired",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="expired",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="forced",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="forced",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="forced",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="lost",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="lost",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="lost",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="protocol",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="protocol",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="protocol",tier="open",transport="webtransport"} 0
moq_relay_sessions_closed_total{reason="stalled",tier="open",transport="quic"} 0
moq_relay_sessions_closed_total{reason="stalled",tier="open",transport="websocket"} 0
moq_relay_sessions_closed_total{reason="stalled",tier="open",transport="webtransport"} 0
moq_relay_sessions_draining 0
moq_relay_udp_packets_misrouted_total{port="client"} 0
moq_relay_udp_packets_misrouted_total{port="peer"} 0
moq_relay_peers_expected 0
moq_relay_track_moves_total 0
moq_relay_peers_connected 0
moq_relay_peer_refused_total 0
moq_relay_peer_dials_total{result="ok"} 0
moq_relay_peer_dials_total{result="failed"} 0
moq_relay_upstreams_connected 0
moq_relay_upstream_dials_total{result="ok"} 0
moq_relay_upstream_dials_total{result="failed"} 0
moq_relay_sessions_opened_total{tier="open",transport="quic"} 0
moq_relay_sessions_opened_total{tier="open",transport="websocket"} 0
moq_relay_sessions_opened_total{tier="open",transport="webtransport"} 0
moq_relay_sessions_refused_total{reason="draining"} 0
moq_relay_sessions_refused_total{reason="forbidden"} 0
moq_relay_sessions_refused_total{reason="malformed"} 0
moq_relay_sessions_refused_total{reason="overload"} 0
moq_relay_sessions_refused_total{reason="tls"} 0
moq_relay_sessions_refused_total{reason="unauthorized"} 0
moq_relay_sessions_refused_total{reason="version"} 0
moq_relay_sessions{tier="open",transport="quic"} 0
moq_relay_sessions{tier="open",transport="websocket"} 0
moq_relay_sessions{tier="open",transport="webtransport"} 0
moq_relay_streams_refused_total{reason="malformed"} 0
moq_relay_streams_refused_total{reason="unknown"} 0
moq_relay_streams_refused_total{reason="unwanted"} 0
moq_relay_subscription_errors_total{reason="forbidden",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="going_away",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="limit",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="not_found",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="other",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="timeout",role="subscriber",tier="open"} 0
moq_relay_subscription_errors_total{reason="unroutable",role="subscriber",tier="open"} 0
moq_relay_subscriptions_opened_total{role="publisher",tier="open"} 0
moq_relay_subscriptions_opened_total{role="subscriber",tier="open"} 0
moq_relay_subscriptions{role="publisher",tier="open"} 0
moq_relay_subscriptions{role="subscriber",tier="open"} 0
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
		f.doc.Cluster = &status.Cluster{Expected: 4, Connected: 3, Refused: 15, Drops: 17, Upstreams: []status.Upstream{{State: "Connected"}, {State: "Connecting"}}}
		f.stats = Stats{
			Traffic: []Traffic{
				{
					Transport: "quic", Tier: "token", Sessions: 2, Opened: 7, Closed: map[string]int64{"lost": 3, "clean": 2},
					Publisher:  Flow{Bytes: 100, Frames: 10, Groups: 2, Datagrams: 1, Fetches: 4, Subscriptions: 1, Opened: 3},
					Subscriber: Flow{Bytes: 300, Groups: 6, Errors: map[string]int64{"timeout": 5}},
					Resets:     map[string]int64{"expired": 6}, ExpiredBytes: 50, GoawaySent: 1,
					FirstFrame: Histogram{Buckets: map[float64]uint64{0.1: 1, 1: 2}, Count: 3, Sum: 4.5},
				},
				{
					Transport: "websocket", Tier: "token", Sessions: 1, Opened: 1, Subscriber: Flow{Bytes: 30},
					Resets: map[string]int64{"expired": 1}, ExpiredBytes: 5, GoawaySent: 1, Strays: map[string]int64{"unknown": 2},
					FirstFrame: Histogram{Buckets: map[float64]uint64{0.1: 0, 1: 1}, Count: 1, Sum: 0.5},
				},
				{Transport: "http", Tier: "open", Subscriber: Flow{Bytes: 3, Fetches: 1}},
				{Transport: "carrier pigeon", Tier: "open", Sessions: 99},
			},
			Draining:      4,
			Refused:       map[string]int64{"overload": 4, "mood": 1},
			EvictedBytes:  map[string]int64{"tail": 8},
			EvictedGroups: map[string]int64{"age": 9},
			Pauses:        11, PauseTime: 1500 * time.Millisecond,
			AcceptFailures: map[string]map[string]int64{"tcp": {"exhausted": 3}},
			AcceptStalled:  map[string]map[string]time.Duration{"tcp": {"exhausted": 2 * time.Second}},
			ConfigReloads:  map[string]int64{"rejected": 1},
			Moves:          16, Misrouted: map[string]int64{"peer": 12}, PeerDials: map[string]int64{"failed": 13}, UpstreamDials: map[string]int64{"ok": 14},
		}
	}))
	for _, want := range []string{
		`moq_relay_sessions_draining 4`,
		`moq_relay_sessions{tier="token",transport="quic"} 2`,
		`moq_relay_sessions{tier="open",transport="quic"} 0`,
		`moq_relay_sessions_opened_total{tier="token",transport="websocket"} 1`,
		`moq_relay_sessions_closed_total{reason="lost",tier="token",transport="quic"} 3`,
		`moq_relay_sessions_refused_total{reason="overload"} 4`,
		`moq_relay_bytes_total{role="publisher",tier="token"} 100`,
		`moq_relay_bytes_total{role="subscriber",tier="token"} 330`,
		`moq_relay_bytes_total{role="subscriber",tier="open"} 3`,
		`moq_relay_fetches_total{role="publisher",tier="token"} 4`,
		`moq_relay_fetches_total{role="subscriber",tier="open"} 1`,
		`moq_relay_subscriptions{role="publisher",tier="token"} 1`,
		`moq_relay_subscription_errors_total{reason="timeout",role="subscriber",tier="token"} 5`,
		`moq_relay_group_streams_reset_total{reason="expired"} 7`,
		`moq_relay_expired_bytes_total{tier="token"} 55`,
		`moq_relay_streams_refused_total{reason="unknown"} 2`,
		`moq_relay_goaway_sent_total 2`,
		`moq_relay_first_frame_seconds_bucket{le="0.1"} 1`,
		`moq_relay_first_frame_seconds_bucket{le="1"} 3`,
		`moq_relay_first_frame_seconds_bucket{le="+Inf"} 4`,
		`moq_relay_first_frame_seconds_sum 5`,
		`moq_relay_first_frame_seconds_count 4`,
		`moq_relay_cache_evicted_bytes_total{reason="tail"} 8`,
		`moq_relay_cache_evicted_groups_total{reason="age"} 9`,
		`moq_relay_cache_bytes 100`,
		`moq_relay_cache_capacity_bytes 200`,
		`moq_relay_ingest_pauses_total 11`,
		`moq_relay_ingest_pause_seconds_total 1.5`,
		`moq_relay_accept_failures_total{class="exhausted",listener="tcp"} 3`,
		`moq_relay_accept_stalled_seconds{class="exhausted",listener="tcp"} 2`,
		`moq_relay_config_reloads_total{result="rejected"} 1`,
		`moq_relay_udp_packets_misrouted_total{port="peer"} 12`,
		`moq_relay_peers_expected 4`,
		`moq_relay_udp_packets_dropped_total{socket="peer"} 17`,
		`moq_relay_track_moves_total 16`,
		`moq_relay_peers_connected 3`,
		`moq_relay_peer_refused_total 15`,
		`moq_relay_peer_dials_total{result="failed"} 13`,
		`moq_relay_upstreams_connected 1`,
		`moq_relay_upstream_dials_total{result="ok"} 14`,
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
	if all := strings.Join(lines, "\n"); strings.Contains(all, "pigeon") || strings.Contains(all, "mood") {
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
