package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// hearing is one announcement of the peer while it is live.
type hearing struct {
	suffix string
	path   model.Path
	// refused is true when the path cannot be carried; the announcement then only counts.
	refused bool

	// guarded by heard.mu
	route *model.Announcement // nil while it is not used
	hops  []uint64            // of route
	warm  uint64
	cold  uint64
	epoch lite.Epoch
}

// heard is all that the peer announces.
type heard struct {
	mu       sync.Mutex
	live     map[*hearing]struct{} // those with a route
	repriced bool                  // the peer goes away: everything costs the most
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.live)
}

// reprice makes everything from this peer the last choice, from now on.
func (h *heard) reprice() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repriced = true
	for a := range h.live {
		a.route.Update(a.hops, wire.MaxVarint, wire.MaxVarint)
	}
}

// hear asks the peer for everything it has and follows the answer until the
// stream ends. Every route learned here is gone with it.
func (s *Session) hear() {
	st, err := s.openStream(s.ctx)
	if err != nil {
		return
	}
	off := abandon(s.ctx, st)
	err = s.hearStream(st)
	off()
	if err == nil || s.ctx.Err() != nil {
		// JavaScript goes on writing after a FIN alone, and gives no credit back
		// after STOP_SENDING alone.
		_ = st.Close()
		st.Stop(uint64(lite.StreamCancelled))
		return
	}
	code := s.conclude("stream", lite.BidiAnnounce, err)
	st.Reset(code)
	st.Stop(code)
}

func (s *Session) hearStream(st transport.Stream) error {
	req := lite.AnnounceRequest{Hidden: true} // it is for our own peers to ask for them or not
	if s.version.HasExcludeHop() {
		req.ExcludeHop = s.cfg.Origin.ID()
	}
	b, err := req.Append(wire.AppendVarint(nil, uint64(lite.BidiAnnounce)), s.version)
	if err != nil {
		return err
	}
	if _, err := st.Write(b); err != nil {
		return err
	}
	l := &listener{s: s, byID: make(map[uint64]*hearing), byPath: make(map[string]*hearing)}
	err = l.read(s.version.Reader(st, s.cfg.Limits.ControlMessage))
	l.close(endedCleanly(err) || endedCleanly(context.Cause(s.ctx)))
	if peerLeft(err) {
		s.log.Debug("the peer announces nothing any more", "error", err)
		return nil
	}
	return err
}

// listener follows the announcements of one stream.
type listener struct {
	s      *Session
	hop    uint64              // the responder's, from ANNOUNCE_OK
	next   uint64              // id of the next START
	byID   map[uint64]*hearing // live; where announcements have ids
	byPath map[string]*hearing // live, by suffix
	copies lite.Copies         // where an announcement may copy from an earlier one

	forgets bool // there were more than are kept
}

// read applies announcements until the stream ends, with io.EOF after a FIN.
func (l *listener) read(in *wire.StreamReader) error {
	if err := l.readOK(in); err != nil {
		return err
	}
	if err := l.s.awaitSetup(); err != nil { // for the root and the price of the link
		return err
	}
	for {
		msg, err := lite.ReadAnnounce(in, l.s.version)
		refused := errors.Is(err, lite.ErrRefused)
		if err != nil && !refused {
			return err
		}
		l.s.counters.AnnouncementsIn.Add(1)
		if l.s.version.HasCopies() {
			err := l.copies.Resolve(msg, refused)
			if refused = refused || errors.Is(err, lite.ErrRefused); err != nil && !errors.Is(err, lite.ErrRefused) {
				return err
			}
		}
		if err := l.apply(msg, refused); err != nil {
			return err
		}
	}
}

func (l *listener) readOK(in *wire.StreamReader) error {
	if !l.s.version.HasAnnounceOK() {
		return nil
	}
	body, err := in.Message()
	if err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("ANNOUNCE_OK: %w", err)
	}
	ok, err := lite.DecodeAnnounceOK(body, l.s.version)
	if err != nil {
		return err
	}
	l.hop = ok.Hop
	return nil
}

// apply takes one announcement over. refused says that it may not be carried.
func (l *listener) apply(msg *lite.Announce, refused bool) error {
	if l.s.version.HasAnnounceIDs() {
		return l.applyTyped(msg, refused)
	}
	live := l.byPath[msg.Suffix]
	switch {
	case msg.Kind == lite.AnnounceEnd && live == nil, refused && live == nil:
		l.discardIf(refused, msg)
	case msg.Kind == lite.AnnounceEnd:
		delete(l.byPath, msg.Suffix)
		l.withdraw(live)
	case live != nil && !l.s.version.HasAnnounceUpdate():
		return violation("announcement of %q, which is live", msg.Suffix)
	case live != nil:
		l.use(live, msg, refused)
	default:
		if a := l.start(msg, refused); l.keeps(a) {
			l.byPath[msg.Suffix] = a
		}
	}
	return nil
}

// keeps reports whether an announcement is remembered: those with a route are, and
// as many others as may have one, which an UPDATE may make usable. What is not
// kept may go on and end without our knowing it.
func (l *listener) keeps(a *hearing) bool {
	if a.route != nil || max(len(l.byID), len(l.byPath)) < 2*l.s.cfg.Limits.Announcements {
		return true
	}
	l.forgets = true
	return false
}

// applyTyped is apply for versions whose announcements have ids.
func (l *listener) applyTyped(msg *lite.Announce, refused bool) error {
	if msg.Kind == lite.AnnounceStart {
		id := l.next
		l.next++
		if l.byPath[msg.Suffix] != nil && !refused {
			return violation("announcement %d: START of %q, which is live", id, msg.Suffix)
		}
		a := l.start(msg, refused)
		if !l.keeps(a) {
			return nil
		}
		l.byID[id] = a
		if !a.refused {
			l.byPath[msg.Suffix] = a
		}
		return nil
	}
	a := l.byID[msg.ID]
	if a == nil && l.forgets && msg.ID < l.next {
		l.discardIf(msg.Kind != lite.AnnounceEnd, msg)
		return nil
	}
	if a == nil {
		return violation("announcement %d was never started, or has ended", msg.ID)
	}
	if msg.Kind == lite.AnnounceEnd {
		delete(l.byID, msg.ID)
		if l.byPath[a.suffix] == a {
			delete(l.byPath, a.suffix)
		}
		l.withdraw(a)
		return nil
	}
	l.use(a, msg, refused)
	return nil
}

// start makes the entry of a new announcement and uses it if it can.
func (l *listener) start(msg *lite.Announce, refused bool) *hearing {
	path, err := l.s.absolute(msg.Suffix)
	a := &hearing{suffix: msg.Suffix, path: path}
	// A refused suffix reads as "". An UPDATE must not make the root of it.
	a.refused = err != nil || refused && msg.Suffix == "" || !l.s.mayAnnounce(path)
	l.use(a, msg, refused)
	return a
}

// mayAnnounce reports whether the peer's grant has the path. The peer cannot be
// told, so whoever runs the relay is, once a session.
func (s *Session) mayAnnounce(path model.Path) bool {
	if s.peer.granted().MayPublish(path) {
		return true
	}
	if !s.peer.overreached.Swap(true) {
		s.log.Info("announcement ignored: the session's grant does not let it publish there", "path", clip(string(path)))
	}
	return false
}

// use announces what the peer says now, or withdraws what cannot be used.
func (l *listener) use(a *hearing, msg *lite.Announce, refused bool) {
	hops := l.chain(msg.Hops)
	if refused || a.refused || len(hops) > lite.MaxHops {
		l.discardIf(true, msg)
		l.drop(a, (*model.Announcement).Leave)
		return
	}
	warm, cold := l.costs(msg, hops)
	h := &l.s.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.route == nil && len(h.live) >= l.s.cfg.Limits.Announcements {
		l.discardIf(true, msg)
		return
	}
	if h.repriced {
		warm, cold = wire.MaxVarint, wire.MaxVarint
	}
	a.hops, a.warm, a.cold = hops, warm, cold
	before := a.route
	if before != nil && msg.Kind != lite.AnnounceRestart {
		before.Update(hops, warm, cold)
		return
	}
	if msg.Kind != lite.AnnounceUpdate {
		a.epoch = msg.Epoch
	}
	h.live[a] = struct{}{}
	a.route = l.s.cfg.Origin.Announce(model.Route{
		Path: a.path, Hops: hops, Warm: warm, Cold: cold, Source: l.s,
		Epoch: a.epoch, HopIdentity: hopIdentity(l.s.version),
	})
	if before != nil {
		before.Withdraw() // another instance has taken the path
	}
}

// withdraw takes the route of an announcement back that the peer has ended, if it
// has one. Before 05 the end of an announcement may also mean one of its tracks.
func (l *listener) withdraw(a *hearing) {
	if l.s.version.HasSubscribeEnd() {
		l.drop(a, (*model.Announcement).Withdraw)
	} else {
		l.drop(a, (*model.Announcement).Leave)
	}
}

func (l *listener) drop(a *hearing, end func(*model.Announcement)) {
	h := &l.s.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.route != nil {
		end(a.route)
		a.route = nil
		delete(h.live, a)
	}
}

// close drops everything: it is over here where the peer has said so, and lost where
// it has not, so that it may come back. Neither says anything of other ways to it.
func (l *listener) close(cleanly bool) {
	end := (*model.Announcement).Lose
	if cleanly {
		end = (*model.Announcement).Leave
	}
	for _, a := range l.byID {
		l.drop(a, end)
	}
	for _, a := range l.byPath {
		l.drop(a, end)
	}
}

// hopIdentity reports whether routes that name the same first hop are the same
// content, so that a viewer may be moved from one to the other between groups. In
// 03 and 04 nobody says so, and in 06 a route proves nothing.
func hopIdentity(v lite.Version) bool { return v == lite.Lite05 || v == lite.Lite06wip }

// endedCleanly reports whether the peer has ended its announcements by a FIN, or
// the session with NO_ERROR.
func endedCleanly(err error) bool {
	closed, ok := errors.AsType[*transport.CloseError](err)
	return err == io.EOF || ok && closed.Remote && !closed.Transport && closed.Code == uint64(lite.SessionNoError)
}

// discardIf counts an announcement that is not used.
func (l *listener) discardIf(discarded bool, msg *lite.Announce) {
	if discarded {
		l.s.counters.Discarded.Add(1)
		l.s.log.Debug("announcement ignored", "suffix", clip(msg.Suffix), "hops", len(msg.Hops))
	}
}

// chain returns the hops from the original publisher to the peer.
func (l *listener) chain(hops []uint64) []uint64 {
	if l.s.version.SenderInHops() {
		return hops
	}
	return append(slices.Clip(hops), l.hop)
}

// costs are what the peer says plus the link's price. In versions without a cost
// each hop before the peer counts one, which is what a mesh without prices computes;
// what nothing running would cost they do not say, which is read as the most.
func (l *listener) costs(msg *lite.Announce, hops []uint64) (warm, cold uint64) {
	price := l.s.price()
	if !l.s.version.HasCost() {
		return min(uint64(max(len(hops), 1)-1)+price, wire.MaxVarint), wire.MaxVarint
	}
	return min(msg.Warm+price, wire.MaxVarint), min(msg.Cold+price, wire.MaxVarint)
}
