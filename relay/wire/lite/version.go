package lite

import (
	"fmt"
	"io"

	"github.com/moqrelay/operator/relay/wire"
)

// A Version is one wire form of moq-lite. Versions are ordered by age: gates
// compare them. The zero Version is none.
type Version uint8

// The versions we speak.
const (
	// Lite03 is draft -03: hop counts, no SETUP, no timestamps.
	Lite03 Version = iota + 1
	// Lite04 adds hop ids, GOAWAY and the round-trip time in PROBE.
	Lite04
	// Lite05 adds SETUP, TRACK, timestamps, datagrams and a served FETCH.
	Lite05
	// Lite06wip is the unreleased form inside @moq/net 0.3: Lite05 with typed
	// announcements of one cost. It is not compatible with Lite06.
	Lite06wip
	// Lite06 is draft -06 as published on 2026-09-24: typed announcements of two
	// costs, a plain group floor and frame bounds; no Ordered.
	Lite06
	// Lite07wip is the unreleased next draft as of October 2026: numbers in the form
	// [wire.LeadingOnes], announcements that copy from earlier ones, epochs, an
	// Auth stream, one cost again. It changes until it is frozen under another token.
	Lite07wip
)

// tokens holds the name of each version: on the wire (ALPN, subprotocol) and in configuration.
var tokens = [...]string{
	Lite03:    "moq-lite-03",
	Lite04:    "moq-lite-04",
	Lite05:    "moq-lite-05",
	Lite06wip: "moq-lite-06-wip",
	Lite06:    "moq-lite-06",
	Lite07wip: "moq-lite-07-wip",
}

// Released returns the versions that are offered unless configuration says
// otherwise, newest first. The caller owns the slice.
func Released() []Version { return []Version{Lite06, Lite05, Lite04, Lite03} }

// ParseVersion returns the version of a token such as "moq-lite-06". Tokens are
// compared byte for byte; moq-lite-06 and moq-lite-06-wip are different wires.
func ParseVersion(token string) (Version, error) {
	for v, t := range tokens {
		if t == token && t != "" {
			return Version(v), nil
		}
	}
	return 0, fmt.Errorf("%q is no moq-lite version that we speak", token)
}

// String returns the token.
func (v Version) String() string {
	if v == 0 || int(v) >= len(tokens) {
		return fmt.Sprintf("moq-lite version %d", uint8(v))
	}
	return tokens[v]
}

// Form returns how the version writes its numbers.
func (v Version) Form() wire.Form {
	if v >= Lite07wip {
		return wire.LeadingOnes
	}
	return wire.QUIC
}

// Reader returns a reader of the version's messages over r. limit is the most
// bytes that a message's body may have; 0 means [wire.MaxControlMessage].
func (v Version) Reader(r io.Reader, limit int) *wire.StreamReader {
	s := wire.NewStreamReader(r, limit)
	s.Form = v.Form()
	return s
}

// HasSetup reports whether each side opens a Setup stream first.
func (v Version) HasSetup() bool { return v >= Lite05 }

// HasExcludeHop reports whether ANNOUNCE_REQUEST names the hop that the asker
// does not want to hear about.
func (v Version) HasExcludeHop() bool { return v == Lite04 || v == Lite05 }

// HasAnnounceOK reports whether ANNOUNCE_OK precedes announcements.
func (v Version) HasAnnounceOK() bool { return v >= Lite05 }

// HasAnnounceIDs reports whether ENDs and UPDATEs name an announcement by the
// number of its START on the stream, not by its suffix.
func (v Version) HasAnnounceIDs() bool { return v >= Lite06wip }

// HasAnnounceUpdate reports whether a live announcement can be changed. In 05
// that is a second "active", which [Announce.Append] writes for an UPDATE.
func (v Version) HasAnnounceUpdate() bool { return v >= Lite05 }

// HasHopIDs reports whether hop lists carry ids; before, only their number.
func (v Version) HasHopIDs() bool { return v >= Lite04 }

// SenderInHops reports whether the sender of an announcement is the last entry
// of its hop list; later it is named by ANNOUNCE_OK.
func (v Version) SenderInHops() bool { return v <= Lite04 }

// HasCost reports whether announcements carry a cost.
func (v Version) HasCost() bool { return v >= Lite06wip }

// HasColdCost reports whether announcements carry a second cost.
func (v Version) HasColdCost() bool { return v == Lite06 }

// HasLinkCost reports whether SETUP carries the price of the link.
func (v Version) HasLinkCost() bool { return v >= Lite06 }

// HasHidden reports whether ANNOUNCE_REQUEST says that hidden routes are wanted.
func (v Version) HasHidden() bool { return v >= Lite07wip }

// HasEpochs reports whether announcements and requests name the publisher's
// instance, and ANNOUNCE_RESTART says that another one took a path.
func (v Version) HasEpochs() bool { return v >= Lite07wip }

// HasCopies reports whether an announcement may copy from an earlier one; see
// [Copies].
func (v Version) HasCopies() bool { return v >= Lite07wip }

// HasDrop reports whether there is SUBSCRIBE_DROP.
func (v Version) HasDrop() bool { return v < Lite07wip }

// HasAuth reports whether there are Auth streams.
func (v Version) HasAuth() bool { return v >= Lite07wip }

// HasOrdered reports whether SUBSCRIBE and TRACK_INFO carry the retired Ordered byte.
func (v Version) HasOrdered() bool { return v <= Lite06wip }

// HasGroupFloor reports whether Group Start is the lowest group wanted, with
// Max Age choosing the start above it; before, absent means the latest group.
func (v Version) HasGroupFloor() bool { return v >= Lite06 }

// HasFrameBounds reports whether SUBSCRIBE, FETCH and GROUP carry frame numbers.
func (v Version) HasFrameBounds() bool { return v >= Lite06 }

// HasSubscribeEnd reports whether responses are OK with a group, END and DROP;
// before, OK with the accepted preferences, and DROP.
func (v Version) HasSubscribeEnd() bool { return v >= Lite05 }

// HasTimestamps reports whether frames carry a timestamp.
func (v Version) HasTimestamps() bool { return v >= Lite05 }

// HasTrack reports whether there are TRACK streams.
func (v Version) HasTrack() bool { return v >= Lite05 }

// ServesFetch reports whether FETCH streams are answered. Before, the message
// exists and every known peer resets it.
func (v Version) ServesFetch() bool { return v >= Lite05 }

// HasProbeRTT reports whether PROBE carries a round-trip time.
func (v Version) HasProbeRTT() bool { return v >= Lite04 }

// HasGoaway reports whether there are Goaway streams.
func (v Version) HasGoaway() bool { return v >= Lite04 }

// HasDatagrams reports whether groups may travel as datagrams.
func (v Version) HasDatagrams() bool { return v >= Lite05 }
