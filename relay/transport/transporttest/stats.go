package transporttest

import (
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

func testStats(t *testing.T, newPair NewPair) {
	t.Run("bytes are counted at both ends and stay after the connection's end", func(t *testing.T) {
		bothWays(t, newPair, roomy(), func(p *peers, from, to transport.Conn) {
			const n = 1 << 20
			sent, received := from.Stats().BytesSent, to.Stats().BytesReceived
			p.carry(from, to, n)
			a, b := from.Stats(), to.Stats()
			if a.BytesSent-sent < n || b.BytesReceived-received < n {
				p.t.Errorf("%d bytes sent and %d received, want at least %d", a.BytesSent-sent, b.BytesReceived-received, n)
			}
			if most := uint64(2 * n); b.BytesReceived-received > most {
				p.t.Errorf("%d bytes received, want at most %d", b.BytesReceived-received, most)
			}
			if a.Bitrate < 0 || a.RTT < 0 {
				p.t.Errorf("figures below 0: %+v", a)
			}
			from.Close(0, "")
			p.wait("Done", from.Done())
			if after := from.Stats(); after.BytesSent < a.BytesSent {
				p.t.Errorf("after the end %d bytes were sent, %d before", after.BytesSent, a.BytesSent)
			}
		})
	})
}
