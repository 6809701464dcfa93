package quic

import (
	"time"

	"github.com/quic-go/quic-go"

	"github.com/moqrelay/operator/relay/transport"
)

// statsOf is what quic-go knows of a connection: a dozen atomic loads.
func statsOf(conn *quic.Conn) transport.Stats {
	s := conn.ConnectionStats()
	return transport.Stats{
		RTT:             s.SmoothedRTT,
		Bitrate:         bitrate(s.CongestionWindow, s.SmoothedRTT),
		BytesSent:       s.BytesSent,
		BytesReceived:   s.BytesReceived,
		PacketsSent:     s.PacketsSent,
		PacketsReceived: s.PacketsReceived,
		PacketsLost:     s.PacketsLost,
	}
}

// bitrate is a window of bytes per round trip in bits per second; 0 while one of
// them is unknown.
func bitrate(window uint64, rtt time.Duration) int64 {
	if rtt <= 0 {
		return 0
	}
	return int64(float64(window) * 8 / rtt.Seconds())
}
