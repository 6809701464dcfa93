package admin

import "time"

// The values of the metrics' labels. A series exists for each from the start; a
// count under another word is not shown.
var (
	// Transports are the values of the label "transport".
	Transports = []string{"quic", "webtransport", "websocket"}
	// CloseReasons say how a session ended: in order, by a fault of the peer's
	// protocol, by a lost connection, because the peer took nothing for too long,
	// because its grant was over, because it left a relay that was leaving, or
	// because the relay did not wait for it any longer.
	CloseReasons = []string{"clean", "protocol", "lost", "stalled", "expired", "drained", "forced"}
	// RefuseReasons say why a connection or session was not taken.
	RefuseReasons = []string{"unauthorized", "forbidden", "overload", "draining", "version", "tls", "malformed"}
	// RequestErrors say why a viewer's request for a track or group was refused.
	RequestErrors = []string{"not_found", "unroutable", "timeout", "limit", "forbidden", "going_away", "other"}
	// ResetReasons say why a group's stream to a viewer did not end with its group.
	ResetReasons = []string{"expired", "lagged", "cancelled", "upstream", "too_large", "evicted"}
	// DropReasons say why a datagram went to no viewer, or not to all.
	DropReasons = []string{"queue", "size", "age"}
	// EvictReasons say why something left the cache.
	EvictReasons = []string{"age", "capacity", "tail"}
	// FetchResults say what became of a fetch.
	FetchResults = []string{"hit", "miss", "joined", "not_found"}
	// StrayReasons say why a peer's stream was ended without being used.
	StrayReasons = []string{"malformed", "unknown", "unwanted"}
	// ConfigResults and TLSResults are the values of the label "result" of reloads:
	// in force, not usable, in force but for keys that wait for a restart.
	ConfigResults = []string{"ok", "rejected", "needs_restart"}
	TLSResults    = []string{"ok", "rejected"}
	// DialResults are the values of the label "result" of dials to other relays, Ports
	// those of "port": of clients, and of relays with the same TLS key.
	DialResults = []string{"ok", "failed"}
	Ports       = []string{"client", "peer"}
	// Listeners are the values of the label "listener", AcceptClasses those of
	// "class": one connection's own failure, no descriptors or memory, anything else.
	Listeners     = []string{"tcp", "status"}
	AcceptClasses = []string{"connection", "exhausted", "unknown"}
)

// DefaultTier is the tier of those whose grant names none: everyone may do everything.
const DefaultTier = "open"

// Stats is what the relay has counted since its start. Counters only grow while
// the process lives, ended sessions included. Maps have the words above as keys;
// a word that is missing counts 0.
type Stats struct {
	// Traffic has one entry for each transport and tier that there was. Its length
	// is bounded by whoever fills it.
	Traffic []Traffic
	// Draining are the open sessions that were told to leave.
	Draining int64
	// Refused counts connections and sessions that were not taken, by reason.
	Refused map[string]int64
	// AcceptFailures counts failures to accept by listener and class. AcceptStalled
	// is for how long a listener has not been able to accept.
	AcceptFailures map[string]map[string]int64
	AcceptStalled  map[string]map[string]time.Duration

	// Broadcasts, Routes and Tracks are there now.
	Broadcasts, Routes, Tracks int64
	// Moves counts tracks that went on over a better route while theirs was there.
	Moves int64
	// OpenGroups are the groups that are being written now.
	OpenGroups int64
	// CachedGroups are those held now, BufferBytes what they and their readers hold.
	CachedGroups, BufferBytes int64
	// PausedStreams are the ingest streams that wait for a viewer now. Pauses
	// counts the waits, PausesDenied those that the session's credit did not cover,
	// PauseTime is how long those that are over have lasted.
	PausedStreams, Pauses, PausesDenied int64
	PauseTime                           time.Duration
	// EgressPauses counts the waits for a tenant's rate, EgressPauseTime is how long
	// those that are over have lasted.
	EgressPauses    int64
	EgressPauseTime time.Duration
	// EvictedGroups and EvictedBytes count what left the cache, by reason.
	EvictedGroups, EvictedBytes map[string]int64
	// Fetches counts fetches by result.
	Fetches map[string]int64
	// DatagramsDropped counts by reason.
	DatagramsDropped map[string]int64
	// Forward is the time that a group's first byte takes through the relay.
	Forward Histogram

	// Misrouted counts packets of no connection here, by port.
	Misrouted map[string]int64
	// PeerDials and UpstreamDials count attempts to reach other relays, by result.
	PeerDials, UpstreamDials map[string]int64
	// ConfigReloads and TLSReloads count changed files by result.
	ConfigReloads, TLSReloads map[string]int64
}

// Traffic is what the sessions of one transport and tier did.
type Traffic struct {
	// Transport is one of [Transports]; traffic of another one counts for the
	// tier alone. Tier is [DefaultTier] or another label of a small set.
	Transport, Tier string
	// Sessions are the open sessions, Opened those ever taken, Closed those that
	// have ended, by reason.
	Sessions, Opened int64
	Closed           map[string]int64
	// Publisher is what came from publishers, Subscriber what went to viewers.
	Publisher, Subscriber Flow
	// Resets counts group streams to viewers that were cut, by reason.
	Resets map[string]int64
	// ExpiredBytes counts bytes that viewers did not get because their group expired.
	ExpiredBytes int64
	// Strays counts streams that were ended without being used, by reason.
	Strays map[string]int64
	// Discarded counts announcements that were ignored.
	Discarded int64
	// GoawaySent and GoawayReceived count those messages.
	GoawaySent, GoawayReceived int64
	// FirstFrame is how long viewers wait for the first byte.
	FirstFrame Histogram
}

// Flow is what went one way.
type Flow struct {
	Bytes, Frames, Groups, Datagrams, Fetches int64
	// Announcements counts their messages: begun, changed and ended.
	Announcements int64
	// Subscriptions are open now, Opened are those ever opened, Errors those
	// refused, by reason.
	Subscriptions, Opened int64
	Errors                map[string]int64
}

// Histogram counts durations.
type Histogram struct {
	// Buckets has, for each upper end in seconds, how many were not longer.
	Buckets map[float64]uint64
	// Count and Sum, in seconds, are of all.
	Count uint64
	Sum   float64
}

// add adds what another one has counted.
func (h *Histogram) add(other Histogram) {
	if h.Buckets == nil {
		h.Buckets = make(map[float64]uint64, len(other.Buckets))
	}
	for end, n := range other.Buckets {
		h.Buckets[end] += n
	}
	h.Count += other.Count
	h.Sum += other.Sum
}
