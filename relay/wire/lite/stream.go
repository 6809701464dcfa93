package lite

import "fmt"

// A BidiType is the number that a bidirectional stream starts with (a varint).
type BidiType uint64

// The bidirectional streams. Any other number is no fault: reset that stream.
const (
	// BidiAnnounce: ANNOUNCE_REQUEST; back come ANNOUNCE_OK (05) and announcements.
	BidiAnnounce BidiType = 0x1
	// BidiSubscribe: SUBSCRIBE and updates; back come responses.
	BidiSubscribe BidiType = 0x2
	// BidiFetch: FETCH; back come frames.
	BidiFetch BidiType = 0x3
	// BidiProbe: nothing or PROBE; back come PROBEs.
	BidiProbe BidiType = 0x4
	// BidiGoaway: GOAWAY; nothing comes back.
	BidiGoaway BidiType = 0x5
	// BidiTrack: TRACK; back comes TRACK_INFO.
	BidiTrack BidiType = 0x6
	// BidiAuth: AUTH; back come AUTH_OK and AUTH_ERROR.
	BidiAuth BidiType = 0x7
)

// In reports whether version v answers streams of this type.
func (t BidiType) In(v Version) bool {
	switch t {
	case BidiAnnounce, BidiSubscribe, BidiProbe:
		return true
	case BidiFetch:
		return v.ServesFetch()
	case BidiGoaway:
		return v.HasGoaway()
	case BidiTrack:
		return v.HasTrack()
	case BidiAuth:
		return v.HasAuth()
	}
	return false
}

// String returns the specification's name.
func (t BidiType) String() string {
	switch t {
	case BidiAnnounce:
		return "Announce"
	case BidiSubscribe:
		return "Subscribe"
	case BidiFetch:
		return "Fetch"
	case BidiProbe:
		return "Probe"
	case BidiGoaway:
		return "Goaway"
	case BidiTrack:
		return "Track"
	case BidiAuth:
		return "Auth"
	}
	return fmt.Sprintf("bidirectional type %#x", uint64(t))
}

// A UniType is the number that a unidirectional stream starts with (a varint).
type UniType uint64

// The unidirectional streams. Any other number is no fault: stop that stream.
const (
	// UniGroup: GROUP, then frames.
	UniGroup UniType = 0x0
	// UniSetup: SETUP (05 and later), once, as the first stream of each side.
	UniSetup UniType = 0x1
)

// In reports whether version v has streams of this type.
func (t UniType) In(v Version) bool {
	return t == UniGroup || t == UniSetup && v.HasSetup()
}

// String returns the specification's name.
func (t UniType) String() string {
	switch t {
	case UniGroup:
		return "Group"
	case UniSetup:
		return "Setup"
	}
	return fmt.Sprintf("unidirectional type %#x", uint64(t))
}
