package health

import (
	"slices"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

const (
	// unanswered is how many asks in a row must fail until a pod is called unreachable.
	unanswered = 3
	// peersPatience is how long a peer may be missing before that is told: relays
	// start, and DNS is asked every few seconds.
	peersPatience = 60 * time.Second
	// dropRate is how many datagrams a second the kernel may throw away. A relay that
	// receives less than a million of them a second loses more than 0.01 % beyond it.
	dropRate = 100
	// dropSamples is how many samples in a row must be beyond dropRate.
	dropSamples = 2
	// dropsClean is how long no sample may be beyond dropRate until the drops are over.
	dropsClean = 5 * time.Minute

	// connecting is the state of a peer without a session.
	connecting = "Connecting"

	// Bounds of what a document may make us remember: it is what a container wrote.
	maxPeers   = 1 << 20
	maxMissing = 128 // 63 other pods with two addresses each
	maxText    = 128
	maxFault   = 512
)

// A Reading is what is known of one pod by its own words. Its zero value is a pod
// that was not asked yet. It is comparable by Equal, and changes only when
// something happened.
type Reading struct {
	// Answered is true when the newest of at most three asks was answered.
	Answered bool
	// Unreachable is true when three asks in a row failed.
	Unreachable bool
	// Mesh is true when the pod is one of a mesh. The two counts are as in
	// [status.Cluster].
	Mesh                bool
	Expected, Connected int
	// PeersMissing is true when some peer was without a session for 60 s. Missing are
	// their addresses, sorted, at most 128; empty when the pod cannot name them.
	PeersMissing bool
	Missing      []string
	// KernelDrops is true while the kernel throws datagrams away.
	KernelDrops bool
	// ConfigHash and LiveHash are the SHA-256 of the files in force, in hex. Rejected is
	// why a newer live file is not, at most 512 bytes; empty when none was refused.
	ConfigHash, LiveHash, Rejected string
}

// Asked says whether anything is known of the pod.
func (r Reading) Asked() bool { return r.Answered || r.Unreachable }

// Equal says that two readings tell the same.
func (r Reading) Equal(other Reading) bool {
	missing, others := r.Missing, other.Missing
	return slices.Equal(missing, others) && r.Answered == other.Answered && r.Unreachable == other.Unreachable &&
		r.Mesh == other.Mesh && r.Expected == other.Expected && r.Connected == other.Connected &&
		r.PeersMissing == other.PeersMissing && r.KernelDrops == other.KernelDrops &&
		r.ConfigHash == other.ConfigHash && r.LiveHash == other.LiveHash && r.Rejected == other.Rejected
}

// A history is what a reading is made of.
type history struct {
	Reading
	failures     int
	last         sample
	missingSince time.Time // zero: no peer is missing
	droppedAt    time.Time // the last sample beyond dropRate
	dropping     int       // samples in a row beyond it
}

// A sample is the counters of one answer.
type sample struct {
	at      time.Time // zero: there is none
	started time.Time // of the relay's process; counters begin with it
	drops   uint64
}

// fail notes that the pod did not answer. What it said before stays until it has
// failed often enough to be called unreachable.
func (h *history) fail() {
	h.failures++
	if h.failures < unanswered {
		return
	}
	h.Reading = Reading{Unreachable: true}
	h.last, h.missingSince, h.dropping = sample{}, time.Time{}, 0
}

// take notes an answer. others is how many other pods the operator sees ready.
func (h *history) take(d status.Document, others int, now time.Time) {
	h.failures = 0
	h.Answered, h.Unreachable = true, false
	h.peers(d.Cluster, others, now)
	h.drops(d, now)
	h.ConfigHash, h.LiveHash, h.Rejected = clip(d.Config.Hash, maxText), clip(d.Config.LiveHash, maxText), clip(d.Config.Rejected, maxFault)
}

// clip cuts a text to at most n bytes, and leaves no half a rune.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// peers judges the sessions with the other pods. DNS may tell a relay of fewer pods
// than there are, which it cannot know; so the operator's own count holds too.
func (h *history) peers(c *status.Cluster, others int, now time.Time) {
	h.Mesh = c != nil && (len(c.Peers) > 0 || c.Expected > 0 || others > 0) // else there are upstreams at most
	if !h.Mesh {
		h.Expected, h.Connected, h.PeersMissing, h.Missing, h.missingSince = 0, 0, false, nil, time.Time{}
		return
	}
	h.Expected, h.Connected = bounded(max(c.Expected, others)), bounded(c.Connected)
	if h.Connected >= h.Expected {
		h.PeersMissing, h.Missing, h.missingSince = false, nil, time.Time{}
		return
	}
	if h.missingSince.IsZero() {
		h.missingSince = now
	}
	h.PeersMissing = now.Sub(h.missingSince) >= peersPatience
	h.Missing = nil
	if h.PeersMissing {
		h.Missing = missing(c.Peers)
	}
}

func bounded(n int) int { return min(max(n, 0), maxPeers) }

// missing are the addresses without a session, sorted.
func missing(peers []status.Peer) []string {
	var list []string
	for _, p := range peers {
		if p.State == connecting && len(p.Address) <= maxText {
			list = append(list, p.Address)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxMissing)]
}

// drops judges what the kernel threw away since the sample before. A process that
// began anew counts from zero.
func (h *history) drops(d status.Document, now time.Time) {
	next := sample{at: now, started: d.Started}
	if d.SocketBuffers != nil {
		next.drops = d.SocketBuffers.Drops
	}
	last := h.last
	h.last = next
	if last.at.IsZero() || !last.started.Equal(next.started) || next.drops < last.drops || !now.After(last.at) {
		h.dropping = 0
		h.KernelDrops = h.KernelDrops && now.Sub(h.droppedAt) < dropsClean
		return
	}
	if float64(next.drops-last.drops) > dropRate*now.Sub(last.at).Seconds() {
		h.dropping++
		h.droppedAt = now
	} else {
		h.dropping = 0
	}
	h.KernelDrops = h.dropping >= dropSamples || (h.KernelDrops && now.Sub(h.droppedAt) < dropsClean)
}
