package quic

import (
	"sync/atomic"

	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// misrouted counts packets whose connection id belongs to no connection of a
// listener. quic-go tells its tracer of packets that it drops and of nothing that it
// takes, so counting costs nothing where there is nothing to count.
type misrouted struct{ packets atomic.Uint64 }

// RecordEvent implements qlogwriter.Recorder.
func (m *misrouted) RecordEvent(event qlogwriter.Event) {
	if drop, ok := event.(qlog.PacketDropped); ok && ofAnotherConnection(drop) {
		m.packets.Add(1)
	}
}

// Close implements qlogwriter.Recorder.
func (m *misrouted) Close() error { return nil }

// ofAnotherConnection reports whether a packet was dropped because its connection is
// not here. An Initial begins one, so of the packets with a long header only those
// of a running handshake can be astray.
func ofAnotherConnection(drop qlog.PacketDropped) bool {
	return drop.Trigger == qlog.PacketDropUnknownConnectionID ||
		drop.Trigger == qlog.PacketDropUnexpectedPacket && drop.Header.PacketType == qlog.PacketTypeHandshake
}

// Misrouted is how many packets have come whose connection id belongs to no
// connection here: they were meant for another process, or for a connection that
// ended some time ago.
func (l *Listener) Misrouted() uint64 { return l.misrouted.packets.Load() }
