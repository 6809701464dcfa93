package lite

import (
	"fmt"
	"slices"
	"strings"
)

// MaxCopyBack is how many STARTs back an announcement may copy from (our limit).
// What copies from further back is [ErrRefused].
const MaxCopyBack = 1024

// Copies follows the announcements that arrive on one stream of a version with
// [Version.HasCopies], and puts back what one of them copies from an earlier one.
// The zero Copies stands at the stream's start. It holds what is live of the last
// [MaxCopyBack] STARTs.
type Copies struct {
	next uint64 // id of the next START
	live map[uint64]copied
}

// copied is what may be copied of a live announcement.
type copied struct {
	suffix  string
	hops    []uint64
	refused bool // it was not understood as a whole
}

// Resolve takes the next announcement of the stream and replaces Suffix and Hops
// by the whole ones. refused says that the decoder returned [ErrRefused] for it:
// it counts for the ids, and what copies from it is [ErrRefused] too, as is a
// result over the limits of a path or hop list.
//
// A base that is not live, more kept than the base has, something kept without a
// base, and a hop id that is twice in the result are [ErrViolation].
func (c *Copies) Resolve(m *Announce, refused bool) error {
	if m.Kind == AnnounceEnd {
		delete(c.live, m.ID)
		return nil
	}
	err := c.resolve(m)
	whole := copied{suffix: m.Suffix, hops: m.Hops, refused: refused || err != nil}
	if m.Kind == AnnounceStart {
		c.start(whole)
		return err
	}
	if was, live := c.live[m.ID]; live { // of another id the session thinks its part
		whole.suffix = was.suffix
		c.live[m.ID] = whole
	}
	return err
}

// start gives the next id to an announcement.
func (c *Copies) start(whole copied) {
	if c.live == nil {
		c.live = make(map[uint64]copied)
	}
	c.live[c.next] = whole
	c.next++
	delete(c.live, c.next-MaxCopyBack-1)
}

// resolve fills in what m copies.
func (c *Copies) resolve(m *Announce) error {
	if m.Kind == AnnounceStart {
		kept, err := c.path(m.SuffixCopy)
		if err != nil {
			return fmt.Errorf("path base: %w", err)
		}
		if m.Suffix, err = NormalizePath(kept + "/" + m.Suffix); err != nil {
			return fmt.Errorf("suffix: %w", err)
		}
	}
	hops, err := c.hops(m.HopCopy)
	if err != nil {
		return fmt.Errorf("hop base: %w", err)
	}
	m.Hops = append(slices.Clip(m.Hops), hops...)
	return checkHops(m.Hops)
}

// path returns the segments that are copied.
func (c *Copies) path(want Copy) (string, error) {
	base, err := c.base(want)
	if err != nil || want.Keep == 0 {
		return "", err
	}
	segments := strings.Split(base.suffix, "/")
	if base.suffix == "" || want.Keep > uint64(len(segments)) {
		return "", fmt.Errorf("%w: %d segments are kept of %q", ErrViolation, want.Keep, base.suffix)
	}
	return strings.Join(segments[:want.Keep], "/"), nil
}

// hops returns the hops that are copied.
func (c *Copies) hops(want Copy) ([]uint64, error) {
	base, err := c.base(want)
	if err != nil {
		return nil, err
	}
	if want.Keep > uint64(len(base.hops)) {
		return nil, fmt.Errorf("%w: %d hops are kept of %d", ErrViolation, want.Keep, len(base.hops))
	}
	return base.hops[uint64(len(base.hops))-want.Keep:], nil
}

// base returns the announcement that is copied from; an empty one for none.
func (c *Copies) base(want Copy) (copied, error) {
	if want.Base == 0 {
		if want.Keep != 0 {
			return copied{}, fmt.Errorf("%w: %d entries are kept of nothing", ErrViolation, want.Keep)
		}
		return copied{}, nil
	}
	base, live := c.live[c.next-want.Base] // of more than there were: no id comes near
	switch {
	case want.Base > MaxCopyBack && want.Base <= c.next:
		return copied{}, fmt.Errorf("%w: %d announcements back, limit %d", ErrRefused, want.Base, MaxCopyBack)
	case !live:
		return copied{}, fmt.Errorf("%w: the announcement %d back is not live", ErrViolation, want.Base)
	case base.refused:
		return copied{}, fmt.Errorf("%w: the announcement %d back was refused", ErrRefused, want.Base)
	}
	return base, nil
}

// checkHops holds the rules of a hop list that was put together.
func checkHops(hops []uint64) error {
	if len(hops) > MaxHops {
		return fmt.Errorf("hop count: %w: %d hops, limit %d", ErrRefused, len(hops), MaxHops)
	}
	for i, hop := range hops {
		if hop != 0 && slices.Contains(hops[:i], hop) {
			return fmt.Errorf("hop id: %w: hop %d twice", ErrViolation, hop)
		}
	}
	return nil
}
