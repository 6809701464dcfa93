package lite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// announced is all that we announce to the peer.
type announced struct {
	mu      sync.Mutex
	streams map[*announcer]struct{}
}

// add takes a stream into the books, unless there are too many.
func (a *announced) add(stream *announcer, most int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.streams) >= most {
		return false
	}
	a.streams[stream] = struct{}{}
	return true
}

func (a *announced) remove(stream *announcer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.streams, stream)
}

// retract ends the announcement of a path on every stream, until its route changes.
func (a *announced) retract(path model.Path) {
	a.mu.Lock()
	streams := make([]*announcer, 0, len(a.streams))
	for s := range a.streams {
		streams = append(streams, s)
	}
	a.mu.Unlock()
	for _, s := range streams {
		s.retract(path)
	}
}

// serveAnnounce answers one ANNOUNCE_REQUEST. The stream is never ended for want
// of something to announce: peers take that as the end of everything.
func (s *Session) serveAnnounce(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "ANNOUNCE_REQUEST")
	if err != nil {
		return err
	}
	req, err := lite.DecodeAnnounceRequest(body, s.version)
	nothing := errors.Is(err, lite.ErrRefused) || s.cfg.Role == lite.RoleSubscriber
	if err != nil && !nothing {
		return err
	}
	if err := s.awaitSetup(); err != nil {
		return err
	}
	prefix, err := s.absolute(req.Prefix)
	a := newAnnouncer(s, st, prefix, req.ExcludeHop, nothing || err != nil)
	a.hides = s.version.HasHidden() && !req.Hidden
	if !s.announced.add(a, s.cfg.Limits.Announcements) {
		return fmt.Errorf("stream Announce: %w", session.ErrLimit)
	}
	defer s.announced.remove(a)
	return a.serve(in)
}

// announcer writes the announcements of one stream.
type announcer struct {
	s      *Session
	st     transport.Stream
	prefix model.Path
	watch  *model.Watcher // nil when there is nothing to show
	live   map[model.Path]*showing
	next   uint64 // id of the next START; only those that were written count
	hides  bool   // paths with a hidden segment are not shown

	mu        sync.Mutex
	retracted map[model.Path]struct{} // to be ended by the writing goroutine
	interrupt context.CancelFunc      // ends its wait; nil while it does not wait
}

// showing is one announcement that the peer has.
type showing struct {
	id    uint64
	route model.Route
}

func newAnnouncer(s *Session, st transport.Stream, prefix model.Path, exclude uint64, nothing bool) *announcer {
	a := &announcer{s: s, st: st, prefix: prefix, live: make(map[model.Path]*showing), retracted: make(map[model.Path]struct{})}
	if nothing {
		return a
	}
	s.peer.learnHop(exclude)
	peer := s.identity()
	if exclude != 0 {
		peer.ID = exclude
	}
	a.watch = s.cfg.Origin.Watch(prefix, peer)
	return a
}

// serve runs the stream until the peer leaves.
func (a *announcer) serve(in *wire.StreamReader) error {
	if a.watch != nil {
		defer a.watch.Close()
	}
	ctx, cancel := context.WithCancelCause(a.s.ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { cancel(a.write(ctx)) })
	if a.retracts() {
		tasks.Go(func() { watchStopped(ctx, a.st, cancel) })
	}
	cancel(readEnd(ctx, a.st, in))
	if a.watch != nil {
		a.watch.Close() // ends the wait in write
	}
	unblock := time.AfterFunc(endWait, func() { a.st.Reset(uint64(lite.StreamCancelled)) })
	tasks.Wait()
	unblock.Stop()
	if cause := context.Cause(ctx); cause != errPeerLeft {
		return cause
	}
	return a.st.Close()
}

// readEnd waits for the end of the peer's direction, or of ctx, and returns why
// the stream ends: errPeerLeft for the one, ctx's cause for the other.
func readEnd(ctx context.Context, st transport.Stream, in *wire.StreamReader) error {
	off := context.AfterFunc(ctx, func() { st.Stop(uint64(lite.StreamCancelled)) })
	defer off()
	err := untilEnd(in)
	if err == nil {
		return errPeerLeft
	}
	return err
}

// watchStopped ends ctx when the peer reads no more.
func watchStopped(ctx context.Context, st transport.Stream, cancel context.CancelCauseFunc) {
	select {
	case <-st.Stopped():
		cancel(errStopped)
	case <-ctx.Done():
	}
}

// endWait is how long one side's end of a stream may wait for the other's.
const endWait = 2 * time.Second

var (
	// errPeerLeft ends a stream whose peer wants no more.
	errPeerLeft = fmt.Errorf("the peer has left the stream: %w", model.ErrCancelled)
	// errStopped ends a stream whose peer reads no more.
	errStopped = fmt.Errorf("the peer has stopped the stream: %w", model.ErrCancelled)
)

// write writes announcements until ctx is done.
func (a *announcer) write(ctx context.Context) error {
	err := a.writeInitial(ctx)
	for err == nil {
		paths, wait := a.pause(ctx)
		if len(paths) > 0 {
			err = a.send(a.appendEnds(nil, paths))
			continue
		}
		var changes []model.Change
		if changes, err = a.changes(ctx, wait); err == nil {
			err = a.send(a.appendChanges(nil, changes))
		} else if a.retracts() && ctx.Err() == nil && wait.Err() != nil {
			err = nil // interrupted: there is something to retract
		}
	}
	return err
}

// retracts reports whether announcements may have to be taken back while their
// routes are there: see [delivery.finish].
func (a *announcer) retracts() bool { return !a.s.version.HasSubscribeEnd() }

// pause returns what is to be retracted, or else a context that retract ends.
func (a *announcer) pause(ctx context.Context) ([]model.Path, context.Context) {
	if !a.retracts() {
		return nil, session.UntilStopped(a.st)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.interrupt != nil {
		a.interrupt()
		a.interrupt = nil
	}
	paths := slices.Sorted(maps.Keys(a.retracted))
	clear(a.retracted)
	if len(paths) > 0 {
		return paths, ctx
	}
	wait, cancel := context.WithCancel(ctx)
	a.interrupt = cancel
	return nil, wait
}

// retract asks the writing goroutine to end the announcement of path.
func (a *announcer) retract(path model.Path) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retracted[path] = struct{}{}
	if a.interrupt != nil {
		a.interrupt()
	}
}

// changes waits for changes until wait, or ctx where there is nothing to watch, ends.
func (a *announcer) changes(ctx, wait context.Context) ([]model.Change, error) {
	if a.watch != nil {
		return a.watch.Next(wait)
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-wait.Done():
		return nil, context.Cause(wait)
	}
}

// writeInitial writes ANNOUNCE_OK and all that there is, in one go.
func (a *announcer) writeInitial(ctx context.Context) error {
	var set []byte
	if a.watch != nil {
		changes, err := a.watch.Next(ctx) // the first call does not wait
		if err != nil {
			return err
		}
		set = a.appendChanges(nil, changes)
	}
	if !a.s.version.HasAnnounceOK() {
		return a.send(set)
	}
	ok := lite.AnnounceOK{Hop: a.s.cfg.Origin.ID(), Active: uint64(len(a.live))}
	b, err := ok.Append(nil, a.s.version)
	if err != nil {
		return err
	}
	return a.send(append(b, set...))
}

func (a *announcer) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := a.st.Write(b)
	return err
}

// appendChanges appends the announcements that tell the peer of changes.
func (a *announcer) appendChanges(b []byte, changes []model.Change) []byte {
	for _, c := range changes {
		b = a.appendChange(b, c)
	}
	return b
}

func (a *announcer) appendChange(b []byte, c model.Change) []byte {
	if !a.s.peer.granted().MaySubscribe(c.Path) || a.hides && hidden(a.suffix(c.Path)) {
		return b
	}
	hops, fits := a.hops(c.Route.Hops)
	now := a.live[c.Path]
	switch {
	case c.Kind == model.Ended || !fits:
		return a.appendEnd(b, c.Path)
	case now == nil:
		return a.appendStart(b, c, hops)
	case a.saysNothing(now.route, c.Route):
	case a.s.version.HasAnnounceUpdate():
		kind := lite.AnnounceUpdate
		if a.s.version.HasEpochs() && now.route.Epoch != c.Route.Epoch {
			kind = lite.AnnounceRestart
		}
		now.route = c.Route
		return a.append(b, &lite.Announce{
			Kind: kind, ID: now.id, Suffix: a.suffix(c.Path), Epoch: c.Route.Epoch, Hops: hops,
			Warm: c.Route.Warm, Cold: c.Route.Cold,
		})
	case moved(now.route, c.Route):
		// A second "active" would end the session of a JavaScript client.
		return a.appendStart(a.appendEnd(b, c.Path), c, hops)
	}
	now.route = c.Route
	return b // 03 and 04 cannot say what has changed
}

// saysNothing reports whether only what 05 does not carry has changed, the cost. It
// would read as another "active".
func (a *announcer) saysNothing(before, now model.Route) bool {
	return !a.s.version.HasCost() && a.s.version.HasAnnounceUpdate() &&
		slices.Equal(before.Hops, now.Hops) && !moved(before, now)
}

func (a *announcer) appendStart(b []byte, c model.Change, hops []uint64) []byte {
	before := len(b)
	b = a.append(b, &lite.Announce{
		Kind: lite.AnnounceStart, Suffix: a.suffix(c.Path), Epoch: c.Route.Epoch, Hops: hops,
		Warm: c.Route.Warm, Cold: c.Route.Cold,
	})
	if len(b) > before {
		a.live[c.Path] = &showing{id: a.next, route: c.Route}
		a.next++
	}
	return b
}

func (a *announcer) appendEnd(b []byte, path model.Path) []byte {
	now := a.live[path]
	if now == nil {
		return b
	}
	delete(a.live, path)
	return a.append(b, &lite.Announce{Kind: lite.AnnounceEnd, ID: now.id, Suffix: a.suffix(path)})
}

func (a *announcer) appendEnds(b []byte, paths []model.Path) []byte {
	for _, path := range paths {
		b = a.appendEnd(b, path)
	}
	return b
}

// append appends one announcement. One that cannot be encoded is left out.
func (a *announcer) append(b []byte, msg *lite.Announce) []byte {
	b, err := msg.Append(b, a.s.version)
	if err != nil {
		a.s.log.Warn("announcement left out", "suffix", msg.Suffix, "error", err)
		return b
	}
	a.s.counters.AnnouncementsOut.Add(1)
	return b
}

// hidden reports whether a suffix has a segment that starts with a dot, which a
// peer of 07 sees only where it asks for that.
func hidden(suffix string) bool {
	return strings.HasPrefix(suffix, ".") || strings.Contains(suffix, "/.")
}

func (a *announcer) suffix(path model.Path) string { return string(path.Strip(a.prefix)) }

// hops is the chain as the version wants it, and false when we do not fit in.
func (a *announcer) hops(chain []uint64) ([]uint64, bool) {
	if len(chain) >= lite.MaxHops {
		return nil, false
	}
	if !a.s.version.SenderInHops() {
		return chain, true
	}
	return append(slices.Clip(chain), a.s.cfg.Origin.ID()), true
}

// moved reports whether another publisher, or another session of it, took the path:
// players of 03 and 04 have to begin anew. Where the content is known to be the same
// they go on.
func moved(before, now model.Route) bool {
	origin := first(now.Hops)
	same := now.Epoch != [16]byte{} && now.Epoch == before.Epoch ||
		now.HopIdentity && before.HopIdentity && origin != 0 && origin == first(before.Hops)
	return !same && (before.Source != now.Source || first(before.Hops) != origin)
}

func first(hops []uint64) uint64 {
	if len(hops) == 0 {
		return 0
	}
	return hops[0]
}
