package session

import (
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
)

// Limits bound what one session may hold. A zero field means its default.
type Limits struct {
	// Subscriptions is the most requests for tracks that the peer may have open,
	// questions about a track's properties included; default 1024. One more is
	// refused.
	Subscriptions int
	// Announcements is the most announcements of the peer that are used, and the
	// most Announce streams it may open; default 1024. More are ignored.
	Announcements int
	// Groups is the most groups that are sent to the peer at a time, each on a
	// stream of its own; default 1024. Others wait.
	Groups int
	// Fetches is the most fetches of the peer that are answered at a time; default
	// 64. Others wait in order.
	Fetches int
	// ControlMessage is the longest body of a control message in bytes; default
	// 65,536. A longer one ends the session.
	ControlMessage int
	// StalledTimeout is how long the peer may take no byte of a group while there
	// is one for it, before the session is closed; default 60 s, below 0: for ever.
	StalledTimeout time.Duration
}

// LinkLimits are the limits of a session with another relay, which asks for what
// all of its viewers want and announces what all of its publishers have: memory
// is bounded by the cache and the windows, not by these. A link never ends for
// being stalled: what stands still on it may be one viewer of many behind the peer,
// which ends that viewer itself.
func LinkLimits() Limits {
	return Limits{Subscriptions: 1 << 16, Announcements: 1 << 18, Groups: 1 << 14, Fetches: 1 << 10, StalledTimeout: -1}.WithDefaults()
}

// WithDefaults returns the limits with every zero field at its default.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Subscriptions, 1024}, {&l.Announcements, 1024}, {&l.Groups, 1024}, {&l.Fetches, 64}, {&l.ControlMessage, 64 << 10}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if l.StalledTimeout == 0 {
		l.StalledTimeout = time.Minute
	}
	return l
}

// NewWindow returns the window that paces the groups arriving on conn: the
// smaller of what we grant the peer on a stream and on the connection, and a
// guard that keeps one stream's worth of connection credit free of paused
// groups. It is shared by all groups of the session; see [CapWindow]. A transport
// that does not say what it grants gives the zero window, which never pauses.
func NewWindow(conn transport.Conn) model.Window {
	w := conn.Windows()
	bytes := w.Stream
	if w.Connection > 0 && (bytes == 0 || w.Connection < bytes) {
		bytes = w.Connection
	}
	if bytes == 0 || w.Connection == 0 {
		return model.Window{Bytes: bytes}
	}
	return model.Window{Bytes: bytes, Credit: model.NewCredit(w.Connection - bytes), Reserve: bytes}
}

// CapWindow returns w for a group that begins now, at most ceiling bytes. What a
// pause reserves stays as it is: it is the transport that holds it.
func CapWindow(w model.Window, ceiling int64) model.Window {
	w.Bytes = min(w.Bytes, ceiling)
	return w
}
