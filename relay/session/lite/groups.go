package lite

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// receiveGroup reads one group stream of the peer, behind its type, to its end.
func (s *Session) receiveGroup(st transport.ReceiveStream, in *bufio.Reader, t *turn) error {
	msg, err := readGroup(in, s.version)
	if err != nil {
		return err
	}
	p := s.pulls.find(msg.SubscribeID)
	if p == nil || !p.awaitAccepted() {
		// Routine: the subscription has ended here while the group was under way.
		s.counters.Stray.Add(1)
		st.Stop(uint64(lite.StreamCancelled))
		return nil
	}
	if msg.FrameStart != 0 {
		// Never asked for. The model's groups begin with frame 0.
		return fmt.Errorf("group %d begins with frame %d: %w", msg.Sequence, msg.FrameStart, session.ErrMalformed)
	}
	if p.isFresh() {
		// Whoever waits for a first group begins with the one that comes first, and
		// goes without those numbered lower: goroutines must not turn them round.
		t.wait(firstGroupWait)
	}
	p.ingestBegins()
	defer p.ingestEnds()
	group, err := p.producer.Group(msg.Sequence, session.CapWindow(s.window, s.cfg.Origin.PacingCap()))
	p.sawGroup(msg.Sequence)
	t.pass()
	if err != nil {
		st.Stop(session.StreamCode(err))
		return nil
	}
	err = session.Ingest(s.ctx, st, in, group, &heads{s: s}, s.in)
	if err == nil || s.ctx.Err() != nil {
		return nil
	}
	if unreadable(err) || errors.Is(err, session.ErrWrongSize) {
		s.counters.Malformed.Add(1)
	}
	s.log.Debug("group cut short", "pull", p.id, "group", msg.Sequence, "error", err)
	return nil
}

// awaitAccepted waits until the peer has accepted the track: its group streams
// may overtake the answer. It reports false where the answer does not come.
func (p *pull) awaitAccepted() bool {
	if p.isAccepted() {
		return true
	}
	limit := time.NewTimer(groupWait)
	defer limit.Stop()
	select {
	case <-p.accepted:
		return true
	case <-p.over:
	case <-limit.C:
	case <-p.ctx.Done():
	}
	return p.isAccepted()
}

// isFresh reports whether no group has come yet.
func (p *pull) isFresh() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.any
}

// firstGroupWait is how long the first group of a track may wait for a stream
// that was opened before its own.
const firstGroupWait = 100 * time.Millisecond

// rememberedRuns is how many runs of groups behind gaps are remembered.
const rememberedRuns = 1024

// run is a range of group numbers; end is exclusive.
type run struct{ first, end uint64 }

// sawGroup notes that a group has begun, or was refused.
func (p *pull) sawGroup(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.any = true
	p.came++
	p.sawLocked(sequence, sequence+1)
}

// sawStreams notes how many group streams there are in all: no gap is told where
// they are counted.
func (p *pull) sawStreams(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.await, p.tally = n, true
	p.checkLocked()
}

// wholeLocked reports whether every group that was to come has.
func (p *pull) wholeLocked() bool {
	return p.known && p.first >= p.end || p.tally && p.came >= p.await
}

// sawFirst notes the first group that will come.
func (p *pull) sawFirst(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = max(p.first, sequence)
	p.checkLocked()
}

// sawDrop notes that groups will not come. A peer may name any range, any number
// of times.
func (p *pull) sawDrop(start, end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if start <= end {
		p.sawLocked(start, end+1)
	}
}

// sawEnd notes the exclusive end of the track.
func (p *pull) sawEnd(end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end, p.known = end, true
	p.checkLocked()
}

// sawLocked notes the groups from first up to end. Where there are too many gaps,
// the lowest one need not be waited for.
func (p *pull) sawLocked(first, end uint64) {
	i, _ := slices.BinarySearchFunc(p.seen, first, func(r run, at uint64) int { return cmp.Compare(r.end, at) })
	j := i // those from i up to j touch the new one
	for j < len(p.seen) && p.seen[j].first <= end {
		first, end = min(first, p.seen[j].first), max(end, p.seen[j].end)
		j++
	}
	p.seen = slices.Replace(p.seen, i, j, run{first, end})
	if len(p.seen) > rememberedRuns {
		p.first = max(p.first, p.seen[0].first)
	}
	p.checkLocked()
}

// checkLocked forgets what lies in front of the first gap, and closes all when
// nothing is missing any more.
func (p *pull) checkLocked() {
	n := 0
	for n < len(p.seen) && p.seen[n].first <= p.first {
		p.first = max(p.first, p.seen[n].end)
		n++
	}
	p.seen = slices.Delete(p.seen, 0, n)
	if !p.wholeLocked() {
		return
	}
	select {
	case <-p.all:
	default:
		close(p.all)
	}
}

// awaitGroups waits, after the publisher's FIN, for groups on streams that the
// FIN has overtaken, and then for the end of those that have begun: our FIN tells
// the publisher that it may leave, and what a transport holds unread for a paused
// group is lost with its connection.
func (p *pull) awaitGroups() {
	limit := time.NewTimer(lateGroups)
	defer limit.Stop()
	select {
	case <-p.all:
	case <-limit.C:
	case <-p.producer.Done():
	case <-p.s.ctx.Done():
	}
	select {
	case <-p.ingested():
	case <-p.producer.Done():
	case <-p.s.ctx.Done():
	}
}

// ingestBegins and ingestEnds count the groups that are being read.
func (p *pull) ingestBegins() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ingests++
}

func (p *pull) ingestEnds() {
	p.mu.Lock()
	if p.ingests--; p.ingests == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
	p.mu.Unlock()
	p.endIfWhole()
}

// endIfWhole ends the track when all of it is here. The publisher's FIN, which
// comes later than its SUBSCRIBE_END, is then not waited for.
func (p *pull) endIfWhole() {
	p.mu.Lock()
	whole := p.wholeLocked() && p.ingests == 0
	p.mu.Unlock()
	if whole {
		p.producer.Close()
	}
}

// ingested returns a channel that is closed when no group is being read.
func (p *pull) ingested() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := make(chan struct{})
	if p.ingests == 0 {
		close(idle)
	} else {
		p.idle = idle
	}
	return idle
}

// readGroup reads GROUP.
func readGroup(in *bufio.Reader, v lite.Version) (lite.Group, error) {
	for need := 1; ; need = in.Buffered() + 1 {
		b, err := peek(in, need, lite.MaxGroupLen)
		if err != nil {
			return lite.Group{}, fmt.Errorf("GROUP: %w", unexpected(err))
		}
		msg, n, err := lite.ParseGroup(b, v)
		if err != nil {
			// Its length, too, is a fault of this stream alone.
			return lite.Group{}, fmt.Errorf("%w: %v", session.ErrMalformed, err)
		}
		if n > 0 {
			_, err = in.Discard(n)
			return msg, err
		}
	}
}

// peek waits until need bytes are there and returns all that are, at most limit.
func peek(in *bufio.Reader, need, limit int) ([]byte, error) {
	if _, err := in.Peek(need); err != nil {
		return nil, err
	}
	return in.Peek(min(in.Buffered(), limit))
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// heads reads the frame heads of one group and brings them to the model's form,
// which is that of 05 and later.
type heads struct {
	s      *Session
	last   int64 // timestamp of the frame before
	stored [lite.MaxFrameHead]byte
}

// Next implements [session.Heads].
func (h *heads) Next(in *bufio.Reader) (session.Head, error) {
	for need := 1; ; need = in.Buffered() + 1 {
		b, err := peek(in, need, lite.MaxFrameHead)
		if err != nil && in.Buffered() > 0 {
			err = unexpected(err)
		}
		if err != nil {
			return session.Head{}, err
		}
		head, n, err := lite.ParseFrameHead(b, h.s.version, h.last)
		if err != nil {
			return session.Head{}, fmt.Errorf("%w: %w", session.ErrMalformed, err)
		}
		if n > 0 {
			_, _ = in.Discard(n) // they were peeked at
			return h.store(head)
		}
	}
}

// store returns a head in the model's form.
func (h *heads) store(head lite.FrameHead) (session.Head, error) {
	if !h.s.version.HasTimestamps() {
		head.Timestamp = h.s.arrival()
	}
	b, err := head.Append(h.stored[:0], lite.Lite06, h.last)
	if err != nil {
		return session.Head{}, fmt.Errorf("%w: %w", session.ErrMalformed, err)
	}
	h.last = head.Timestamp
	return session.Head{Stored: b, Timestamp: head.Timestamp, Size: int64(head.Size)}, nil
}
