package model

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"
)

// Preferences is what all subscribers of a track want together.
type Preferences struct {
	// Active is true when somebody wants groups; the others ask for the track's
	// properties alone, and the rest of this is zero.
	Active bool
	// Priority is the highest asked for.
	Priority uint8
	// Ordered is true only when every subscriber asks for it.
	Ordered bool
	// MaxLatency is the longest asked for, no longer than the track's own MaxAge.
	MaxLatency time.Duration
	// Start is the lowest first group asked for, if HasStart.
	Start    uint64
	HasStart bool
	// End is the highest last group asked for, if HasEnd: everyone has one.
	End    uint64
	HasEnd bool
}

// Producer is one upstream request for one track: what a [Source] fills.
type Producer struct {
	track  *track
	route  *Announcement
	source Source
	done   chan struct{}
	epoch  [16]byte

	// guarded by track.mu
	silence  *time.Timer // the source did not answer
	accepted bool
	over     bool
	lost     bool   // its source was, without a word
	exact    bool   // the content has an epoch: group numbers never start anew
	resumed  bool   // another source began the track, and no group has come from this one
	from     uint64 // where that one ended, exclusive; 0: nowhere
	behind   uint64 // how much below from this one may go on
	floor    uint64 // no datagram below it is new
	// Of one that was left for another:
	until  uint64      // it may begin groups below it, no others; 0: it was not left
	left   time.Time   // when
	finish *time.Timer // looks whether it has finished
	fills  bool        // it was asked for what another one had left
}

// Path is the broadcast's, absolute.
func (p *Producer) Path() Path { return p.track.path }

// Track is the track's name.
func (p *Producer) Track() string { return p.track.name }

// Preferences returns what the subscribers want now.
func (p *Producer) Preferences() Preferences {
	p.track.mu.Lock()
	defer p.track.mu.Unlock()
	prefs := p.track.prefs
	if p.from > 0 && prefs.Active {
		p.resumeLocked(&prefs)
	}
	if p.until > 0 && (!prefs.HasEnd || prefs.End >= p.until) {
		prefs.End, prefs.HasEnd = p.until-1, true
		prefs.Start = min(prefs.Start, prefs.End)
	}
	return prefs
}

// Epoch is the publisher's own epoch of what is asked for, to be named in the
// request where the protocol does that (moq-lite-07); zero where it has none.
func (p *Producer) Epoch() [16]byte {
	return p.epoch
}

// Changed returns a channel that the next change of Preferences closes. Take it
// before reading them.
func (p *Producer) Changed() <-chan struct{} {
	p.track.mu.Lock()
	defer p.track.mu.Unlock()
	return p.track.changed
}

// Done is closed when the request is over: nobody wants the track any more, it was
// closed or failed, or another source has taken over.
func (p *Producer) Done() <-chan struct{} { return p.done }

// Accept says that the source has the track. Subscribers wait for it.
func (p *Producer) Accept(info Info) { p.track.accept(p, info) }

// Begin says that the publisher's first group is number first: none below it will
// come. It is not needed, but without it a viewer is told the number of the group
// that came first, which one that it overtook may undercut.
func (p *Producer) Begin(first uint64) { p.track.beginAt(p, first) }

// Finish says that no group numbered end or higher will ever come. Groups below
// it may still come.
func (p *Producer) Finish(end uint64) { p.track.finish(p, end) }

// Close says that no group will come any more. Without a Finish before, the
// track ends after its latest group. Open groups go on until their writers end them.
func (p *Producer) Close() { p.track.close(p) }

// Fail ends the track and its open groups: refused or reset. After Close it aborts
// what is still open.
//
// With [ErrSourceGone] the session is lost. A track that nobody was told anything
// of is then asked of another source, and one whose content another route brings
// too goes on there, at a group's boundary: at once, or when such a route comes
// within [Config.Linger]. Its subscribers then notice a gap at most.
func (p *Producer) Fail(err error) {
	t := p.track
	if t.part(p, err) || (errors.Is(err, ErrSourceGone) || t.awaits()) && t.resume(p) {
		return
	}
	t.failed(p, err)
}

// Group begins a group. Errors: [ErrDuplicate] for a number that was used,
// [ErrOld] for one far below the latest, [ErrClosed] when the request is over or
// the number is at or above the end, [ErrNoCapacity].
func (p *Producer) Group(sequence uint64, window Window) (*GroupWriter, error) {
	return p.track.group(p, sequence, window)
}

// Datagram passes on a whole group of one frame that came as a datagram, to those
// subscribers that take datagrams. payload belongs to the model from then on. It
// is dropped before Accept.
func (p *Producer) Datagram(sequence uint64, timestamp int64, payload []byte) {
	p.track.datagram(p, Datagram{Sequence: sequence, Timestamp: timestamp, Payload: payload})
}

// pull asks the source. Without locks.
func (p *Producer) pull() { p.source.Pull(p) }

func (p *Producer) silent() {
	p.track.mu.Lock()
	pending := !p.accepted
	p.track.mu.Unlock()
	if pending {
		p.Fail(ErrUpstreamTimeout)
	}
}

// endLocked tells the source that it is wanted no more.
func (p *Producer) endLocked() {
	if !p.over {
		p.over = true
		p.silence.Stop()
		if p.finish != nil {
			p.finish.Stop()
		}
		close(p.done)
	}
}

// wish is what one subscriber alone would ask for; false where it wants no groups.
func (o *Options) wish() (Preferences, bool) {
	w := Preferences{Active: true, Priority: o.Priority, Ordered: o.Ordered, MaxLatency: o.MaxLatency, HasEnd: o.HasEnd}
	if o.HasEnd {
		w.End = o.End
	}
	if o.Start.Mode == StartGroup || o.Start.Mode == StartFloor && o.Start.Group > 0 {
		w.Start, w.HasStart = o.Start.Group, true
	}
	return w, !o.Passive
}

// wishLocked counts n more subscribers with these wishes: most viewers of a track
// want the same, so that a merge need not look at each.
func (t *track) wishLocked(o *Options, n int) {
	w, active := o.wish()
	if !active {
		return
	}
	if t.wishes[w] += n; t.wishes[w] == 0 {
		delete(t.wishes, w)
	}
}

// mergeLocked computes the aggregate of what the subscribers want.
func (t *track) mergeLocked() {
	merged := Preferences{Active: true, Ordered: true, HasEnd: true}
	for w := range t.wishes {
		merged.add(w)
	}
	if len(t.wishes) == 0 {
		merged = Preferences{}
	}
	if t.accepted {
		merged.MaxLatency = min(merged.MaxLatency, t.info.MaxAge)
	}
	if merged != t.prefs {
		t.prefs = merged
		t.changedLocked()
	}
}

// changedLocked says that what [Producer.Preferences] returns has changed.
func (t *track) changedLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (p *Preferences) add(w Preferences) {
	p.Priority = max(p.Priority, w.Priority)
	p.Ordered = p.Ordered && w.Ordered
	p.MaxLatency = max(p.MaxLatency, w.MaxLatency)
	if w.HasStart && (!p.HasStart || w.Start < p.Start) {
		p.Start, p.HasStart = w.Start, true
	}
	p.HasEnd = p.HasEnd && w.HasEnd
	if p.End = max(p.End, w.End); !p.HasEnd {
		p.End = 0
	}
}

// unused ends the request when nobody came back within the delay.
func (t *track) unused() {
	t.mu.Lock()
	if len(t.subs) > 0 || t.stopped {
		t.mu.Unlock()
		return
	}
	empty := t.stopLocked()
	t.mu.Unlock()
	t.detach(empty, true)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
