package lite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// mostAsking is how many groups we ask one peer for at a time: as many as we
// answer a peer by default. More wait in order, while somebody waits for them.
const mostAsking = 64

// serveFetch answers one FETCH on its own stream: the frames of one group, and
// FIN when that is all that was asked for. A shorter answer is reset.
func (s *Session) serveFetch(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "FETCH")
	if err != nil {
		return err
	}
	msg, err := lite.DecodeFetch(body, s.version)
	if err != nil {
		return s.refused(err)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	var task sync.WaitGroup
	task.Go(func() { watchLeft(ctx, st, cancel) })
	begun, err := s.answerFetch(ctx, st, msg)
	cause := context.Cause(ctx)
	cancel(nil)
	task.Wait()
	switch {
	case err == nil:
		st.Stop(uint64(lite.StreamCancelled)) // a peer may keep its half open for ever
		return nil
	case cause != nil:
		err = cause
	}
	err = fmt.Errorf("FETCH %q %q group %d: %w", msg.Broadcast, msg.Track, msg.Group, err)
	if begun || cause != nil {
		return err
	}
	return s.refused(err)
}

// watchLeft ends ctx when the peer gives a request up. The end of its half does
// not say that: it has nothing more to ask.
func watchLeft(ctx context.Context, st transport.Stream, cancel context.CancelCauseFunc) {
	select {
	case <-st.Stopped():
	case <-st.Aborted():
	case <-ctx.Done():
		return
	}
	cancel(errStopped)
}

// answerFetch sends the group when there is a place for it and it is here. begun
// reports whether there was an answer.
func (s *Session) answerFetch(ctx context.Context, st transport.Stream, msg *lite.Fetch) (begun bool, err error) {
	if s.draining.Load() && !s.stays() {
		return false, session.ErrGoingAway
	}
	s.work.begin()
	defer s.work.end()
	path, err := s.readable(msg.Broadcast, msg.Epoch)
	if err != nil {
		return false, err
	}
	select {
	case s.fetches <- struct{}{}:
		defer func() { <-s.fetches }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	s.tier.Fetches.Add(1)
	f, err := s.cfg.Origin.Fetch(path, msg.Track, s.identity(), model.FetchOptions{
		Group:       msg.Group,
		FrameStart:  msg.FrameStart,
		FrameEnd:    msg.FrameEnd.Value,
		HasFrameEnd: msg.FrameEnd.Set,
		Priority:    msg.Priority,
	})
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, err := f.Reader(ctx)
	if err != nil {
		return false, err
	}
	info, _ := f.Info()
	key := session.Key{Subscriber: msg.Priority, Publisher: info.Priority, Fetch: true}
	defer s.ranks.Queue(key).Open(msg.Group, st).Close()
	form := s.form(nil, r.First())
	pacer, paced := s.pacer(path)
	defer paced()
	form.Pacer = pacer
	return true, s.sender.Send(ctx, st, r, form)
}

// Fetch implements [model.Fetcher]: it asks the peer for one group.
func (s *Session) Fetch(r *model.GroupRequest) {
	switch {
	case !s.version.ServesFetch():
		r.Fail(fmt.Errorf("%v cannot be asked for a group: %w", s.version, model.ErrNotFound))
	case s.goneAway.Load() && !s.stays():
		r.Fail(fmt.Errorf("the publisher is going away: %w", model.ErrUnroutable))
	case !s.peer.granted().MayPublish(r.Path()):
		r.Fail(fmt.Errorf("the publisher: %w", session.ErrForbidden))
	case !s.tasks.Go(func() { s.fetch(r) }):
		r.Fail(model.ErrSourceGone)
	}
}

// fetch asks the peer for one group and takes its answer.
func (s *Session) fetch(r *model.GroupRequest) {
	s.work.begin()
	defer s.work.end()
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-r.Done():
		return
	case <-s.ctx.Done():
		r.Fail(model.ErrSourceGone)
		return
	}
	select {
	case <-r.Done(): // it waited for too long
		return
	default:
	}
	s.tier.UpstreamFetches.Add(1)
	st, in, err := s.ask(r)
	if err != nil {
		r.Fail(err)
		return
	}
	defer session.CloseBuffer(in)
	group, err := r.Begin(session.CapWindow(s.window, s.cfg.Origin.PacingCap()))
	if err != nil {
		st.Stop(session.StreamCode(err))
		return
	}
	err = session.Ingest(s.ctx, st, in, group, &heads{s: s}, s.in)
	if err != nil && s.ctx.Err() == nil {
		if unreadable(err) || errors.Is(err, session.ErrWrongSize) {
			s.counters.Malformed.Add(1)
		}
		s.log.Debug("fetched group cut short", "track", r.Track(), "group", r.Sequence(), "error", err)
	}
}

// ask writes FETCH and waits for the answer to begin. It gives up when nobody
// waits for the group any more. The error is what those are told who do.
func (s *Session) ask(r *model.GroupRequest) (transport.Stream, *bufio.Reader, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	var task sync.WaitGroup
	defer task.Wait()
	defer cancel(nil)
	task.Go(func() {
		select {
		case <-r.Done():
			cancel(model.ErrCancelled)
		case <-ctx.Done():
		}
	})
	st, err := s.openStream(ctx)
	if err != nil {
		return nil, nil, model.ErrSourceGone
	}
	off := abandon(ctx, st)
	defer off()
	in := session.OpenBuffer(st)
	if err = s.writeFetch(st, r); err == nil {
		// A group without frames is an end and nothing else.
		if _, err = in.Peek(1); err == io.EOF {
			err = nil
		}
	}
	if err == nil && off() {
		return st, in, nil
	}
	session.CloseBuffer(in)
	code := s.conclude("stream", lite.BidiFetch, err)
	st.Reset(code)
	st.Stop(code)
	return nil, nil, s.requestError(err, false)
}

// writeFetch writes FETCH, which is all that we have to say.
func (s *Session) writeFetch(st transport.Stream, r *model.GroupRequest) error {
	msg := lite.Fetch{
		Broadcast: string(r.Path().Strip(s.peer.granted().Root)),
		Epoch:     r.Epoch(),
		Track:     r.Track(), Priority: r.Priority(), Group: r.Sequence(),
	}
	b, err := msg.Append(wire.AppendVarint(nil, uint64(lite.BidiFetch)), s.version)
	if err != nil {
		return err
	}
	if _, err := st.Write(b); err != nil {
		return err
	}
	_ = st.Close() // a peer that has answered by now may have stopped our half
	return nil
}
