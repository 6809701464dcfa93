package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

const (
	// groupWait is how long a group stream may come before the track is accepted.
	groupWait = 5 * time.Second
	// lateGroups is how long after the end of a Subscribe stream groups may still
	// come, on streams that it has overtaken.
	lateGroups = time.Second
	// updateWait is how long a publisher may leave our SUBSCRIBE_UPDATE unread.
	updateWait = 5 * time.Second
	// untimedMaxAge is the retention of a track whose protocol has none.
	untimedMaxAge = 5 * time.Second
)

// pulls are the tracks that we ask the peer for.
type pulls struct {
	mu   sync.Mutex
	next uint64 // subscribe ids are never used again
	byID map[uint64]*pull
}

func (p *pulls) add(pl *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl.id = p.next
	p.next++
	p.byID[pl.id] = pl
}

func (p *pulls) find(id uint64) *pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

func (p *pulls) remove(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byID, id)
}

func (p *pulls) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byID)
}

// Pull implements [model.Source]: it asks the peer for a track.
func (s *Session) Pull(p *model.Producer) {
	if s.goneAway.Load() && !s.stays() {
		p.Fail(fmt.Errorf("the publisher is going away: %w", model.ErrUnroutable))
		return
	}
	// What it announced leads to everything below, its grant perhaps not.
	if !s.peer.granted().MayPublish(p.Path()) {
		p.Fail(fmt.Errorf("the publisher: %w", session.ErrForbidden))
		return
	}
	if !s.tasks.Go(func() { s.pull(p) }) {
		p.Fail(model.ErrSourceGone)
	}
}

// pull is one track that we ask the peer for.
type pull struct {
	s        *Session
	producer *model.Producer
	name     string // the broadcast's, on the wire
	id       uint64
	ctx      context.Context // ends when nobody wants the track, before SUBSCRIBE is out

	accepted   chan struct{}      // closed when the peer has accepted
	over       chan struct{}      // closed when request has returned
	subscribed chan *subscription // given once, when SUBSCRIBE was written

	mu    sync.Mutex // guards what was seen of the groups
	seen  []run      // by number, above first, with a gap in front of each
	any   bool       // a group has come
	first uint64
	end   uint64
	known bool          // end is
	came  uint64        // group streams
	await uint64        // group streams that the publisher opened in all; 07
	tally bool          // await is known
	all   chan struct{} // closed when every group from first to end was seen

	ingests int           // groups that are being read; guarded by mu
	idle    chan struct{} // closed when they are 0; nil: nobody waits for that
}

// subscription is our Subscribe stream, and what was last written on it.
type subscription struct {
	st    transport.Stream
	prefs model.Preferences
}

// pull fetches a track until it ends or nobody wants it.
func (s *Session) pull(p *model.Producer) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	pl := &pull{
		s: s, producer: p, ctx: ctx,
		name:       string(p.Path().Strip(s.peer.granted().Root)),
		accepted:   make(chan struct{}),
		over:       make(chan struct{}),
		subscribed: make(chan *subscription, 1),
		all:        make(chan struct{}),
	}
	s.work.begin()
	defer s.work.end()
	s.tier.Pulls.Begin()
	defer s.tier.Pulls.End()
	s.pulls.add(pl)
	s.expectDatagrams()
	var err error
	var task sync.WaitGroup
	task.Go(func() {
		defer close(pl.over)
		err = pl.request()
	})
	sub := pl.steer()
	if sub == nil {
		cancel()
	} else {
		s.leaveUnlessOver(pl, sub.st)
	}
	task.Wait()
	s.pulls.remove(pl.id)
	pl.conclude(sub, err)
}

// leaveUnlessOver says on a Subscribe stream that we want no more, and waits for
// the answer. What still comes of its groups is stopped.
func (s *Session) leaveUnlessOver(pl *pull, st transport.Stream) {
	select {
	case <-pl.over:
		return
	default:
	}
	s.pulls.remove(pl.id)
	_ = st.Close()
	late := time.AfterFunc(endWait, func() { st.Stop(uint64(lite.StreamCancelled)) })
	defer late.Stop()
	<-pl.over
}

// conclude ends the Subscribe stream and the producer after err.
func (p *pull) conclude(sub *subscription, err error) {
	s := p.s
	if sub == nil {
		select {
		case sub = <-p.subscribed: // it came too late for steer; the stream was abandoned
		default:
		}
	}
	code := uint64(lite.StreamCancelled)
	if err != nil {
		code = s.conclude("stream", lite.BidiSubscribe, err)
		p.producer.Fail(s.requestError(err, p.isAccepted()))
	} else {
		p.producer.Close()
	}
	switch {
	case sub == nil:
		return
	case err == nil:
		_ = sub.st.Close()
	default:
		sub.st.Reset(code)
	}
	sub.st.Stop(code)
}

// requestError is what those who wait for a track or a group are told when our
// request for it ended with err. accepted says that the peer had agreed before.
func (s *Session) requestError(err error, accepted bool) error {
	reset, ok := errors.AsType[*transport.StreamError](err)
	switch {
	case s.ctx.Err() != nil:
		return model.ErrSourceGone
	case ok && reset.Remote:
		return s.refusal(lite.StreamCode(reset.Code), accepted)
	case ok && reset.Code == uint64(lite.StreamControlTimeout):
		return model.ErrUpstreamTimeout // see update
	case unreadable(err), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, model.ErrNotFound):
		return err
	}
	return model.ErrSourceGone // no fault of the stream: the connection is lost
}

// refusal is what a peer means that resets a request with code. Those before 06
// number their codes differently; 0 and 1 mean nothing there.
func (s *Session) refusal(code lite.StreamCode, accepted bool) error {
	routine := code.Routine() && s.version < lite.Lite06
	switch {
	case s.lostBehind(code):
		return model.ErrSourceGone
	case routine && accepted:
		return model.ErrCancelled
	case routine, code == lite.StreamNotFound && s.version >= lite.Lite06:
		return model.ErrNotFound
	}
	return &model.AbortError{Code: uint64(code)}
}

// steer writes SUBSCRIBE_UPDATE when the subscribers' wishes change, until nobody
// wants the track or the request is over. It returns the Subscribe stream, nil
// when there was none yet.
func (p *pull) steer() *subscription {
	var sub *subscription
	for {
		changed := p.producer.Changed()
		if prefs := p.producer.Preferences(); sub != nil && prefs != sub.prefs {
			sub.prefs = prefs
			p.update(sub)
		}
		select {
		case <-changed:
		case sub = <-p.subscribed:
		case <-p.producer.Done():
			return sub
		case <-p.over:
			return sub
		}
	}
}

// update writes SUBSCRIBE_UPDATE. A publisher that does not take it in time loses
// the subscription: whatever else happens to the track would wait behind it.
func (p *pull) update(sub *subscription) {
	late := time.AfterFunc(updateWait, func() {
		sub.st.Reset(uint64(lite.StreamControlTimeout))
		sub.st.Stop(uint64(lite.StreamControlTimeout))
	})
	defer late.Stop()
	msg := lite.SubscribeUpdate{Preferences: preferences(sub.prefs)}
	b, err := msg.Append(nil, p.s.version)
	if err == nil {
		_, err = sub.st.Write(b) // whoever reads the stream sees its end
	}
	if err != nil {
		p.s.log.Debug("SUBSCRIBE_UPDATE not sent", "subscription", p.id, "error", err)
	}
}

// request asks for the track, for its groups once somebody wants them, and follows
// the answers. It returns nil when the track has ended and its groups were read.
func (p *pull) request() error {
	release := func() {}
	if p.s.version.HasTrack() {
		info, end, err := p.requestInfo()
		if err != nil {
			return err
		}
		release = end
		p.accept(info)
		if err := p.awaitDemand(); err != nil {
			release()
			return err
		}
	}
	st, err := p.s.openStream(p.ctx)
	if err != nil {
		release()
		return err
	}
	defer abandon(p.ctx, st)()
	err = p.subscribe(st)
	release()
	if err != nil {
		return err
	}
	if err := p.readResponses(p.s.version.Reader(st, p.s.cfg.Limits.ControlMessage)); err != nil {
		return err
	}
	p.awaitGroups()
	return nil
}

// awaitDemand waits until somebody wants groups. A viewer asks for the track's
// properties before it subscribes: a SUBSCRIBE for that alone would name wishes
// that nobody has, and what the publisher then skips as too old does not come back.
func (p *pull) awaitDemand() error {
	for {
		changed := p.producer.Changed()
		if p.producer.Preferences().Active {
			return nil
		}
		select {
		case <-changed:
		case <-p.producer.Done():
			return model.ErrCancelled
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

// subscribe writes SUBSCRIBE and gives the stream to steer.
func (p *pull) subscribe(st transport.Stream) error {
	sub := &subscription{st: st, prefs: p.producer.Preferences()}
	msg := lite.Subscribe{
		ID: p.id, Broadcast: p.name, Epoch: p.producer.Epoch(), Track: p.producer.Track(),
		Preferences: preferences(sub.prefs),
	}
	b, err := msg.Append(wire.AppendVarint(nil, uint64(lite.BidiSubscribe)), p.s.version)
	if err == nil {
		_, err = st.Write(b)
	}
	p.subscribed <- sub
	return err
}

// accept tells the model that the peer has the track.
func (p *pull) accept(info model.Info) {
	p.producer.Accept(info)
	close(p.accepted)
}

// readResponses reads until the publisher's FIN.
func (p *pull) readResponses(in *wire.StreamReader) error {
	for {
		msg, err := lite.ReadResponse(in, p.s.version)
		if err == io.EOF {
			return p.ended()
		}
		if err != nil {
			return err
		}
		if err := p.respond(msg); err != nil {
			return err
		}
	}
}

// ended checks a FIN: where acceptance is a message, it must have come.
func (p *pull) ended() error {
	select {
	case <-p.accepted:
		return nil
	default:
		return fmt.Errorf("ended without SUBSCRIBE_OK: %w", model.ErrNotFound)
	}
}

// respond applies one response.
func (p *pull) respond(msg lite.Response) error {
	switch msg := msg.(type) {
	case *lite.SubscribeOK:
		p.applyOK(msg)
	case *lite.SubscribeEnd:
		p.producer.Finish(msg.Group)
		if p.s.version.HasDrop() {
			p.sawEnd(msg.Group)
		} else {
			p.sawStreams(msg.Streams)
		}
		p.endIfWhole()
	case *lite.SubscribeDrop:
		if !p.s.version.HasSubscribeEnd() && !p.isAccepted() {
			return fmt.Errorf("%w: SUBSCRIBE_DROP before SUBSCRIBE_OK", wire.ErrMalformed)
		}
		p.sawDrop(msg.Start, msg.End)
	}
	return nil
}

func (p *pull) isAccepted() bool {
	select {
	case <-p.accepted:
		return true
	default:
		return false
	}
}

// applyOK takes SUBSCRIBE_OK over. Drafts allow several; the first counts.
func (p *pull) applyOK(msg *lite.SubscribeOK) {
	if p.s.version.HasSubscribeEnd() {
		p.producer.Begin(msg.Group)
		p.sawFirst(msg.Group)
		return
	}
	if p.isAccepted() {
		return
	}
	p.accept(model.Info{
		Priority:  msg.Priority,
		MaxAge:    untimedMaxAge,
		Timescale: 1000,
		Invented:  true,
	})
}

// preferences are the wire's for what the model wants.
func preferences(m model.Preferences) lite.Preferences {
	return lite.Preferences{
		Priority:   m.Priority,
		MaxAge:     milliseconds(m.MaxLatency),
		GroupStart: lite.Optional{Value: m.Start, Set: m.HasStart},
		GroupEnd:   lite.Optional{Value: m.End, Set: m.HasEnd},
	}
}
