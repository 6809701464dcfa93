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

// requests are the tracks that the peer asks us for.
type requests struct {
	mu   sync.Mutex
	byID map[uint64]struct{} // Subscribe streams that run, by the peer's id
	open int                 // Subscribe and Track streams
	live map[model.Path]int  // Subscribe streams by broadcast
}

func (r *requests) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// open takes a request into the books. Call the returned function when it is over.
func (s *Session) openRequest() (over func(), err error) {
	if s.draining.Load() && !s.stays() {
		return nil, session.ErrGoingAway
	}
	r := &s.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if most := s.cfg.Limits.Subscriptions; r.open >= most {
		return nil, fmt.Errorf("%w of %d requests", session.ErrLimit, most)
	}
	r.open++
	s.work.begin()
	return func() {
		defer s.work.end()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open--
	}, nil
}

// claim takes a subscribe id, which must not be in use.
func (r *requests) claim(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, used := r.byID[id]; used {
		return false
	}
	r.byID[id] = struct{}{}
	return true
}

func (r *requests) release(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}

// enter and exit count the running subscriptions of a broadcast; exit reports
// whether it was the last one.
func (r *requests) enter(path model.Path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil {
		r.live = make(map[model.Path]int)
	}
	r.live[path]++
}

func (r *requests) exit(path model.Path) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[path]--; r.live[path] > 0 {
		return false
	}
	delete(r.live, path)
	return true
}

// serveSubscribe answers one SUBSCRIBE and serves it to its end.
func (s *Session) serveSubscribe(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "SUBSCRIBE")
	if err != nil {
		return err
	}
	req, err := lite.DecodeSubscribe(body, s.version)
	if err != nil {
		return s.refused(err)
	}
	if !s.requests.claim(req.ID) {
		return violation("SUBSCRIBE: id %d is in use", req.ID)
	}
	d, err := s.newDelivery(st, req)
	if err != nil {
		s.requests.release(req.ID)
		return s.refused(fmt.Errorf("SUBSCRIBE %q %q: %w", req.Broadcast, req.Track, err))
	}
	return d.serve(in)
}

// refused counts a request that is refused with err.
func (s *Session) refused(err error) error {
	if !unreadable(err) && s.ctx.Err() == nil {
		s.counted().Refused.Add(err)
	}
	return err
}

// subscribe asks the origin for a track on behalf of the peer.
func (s *Session) subscribe(broadcast string, epoch lite.Epoch, track string, options model.Options) (*model.Subscription, model.Path, error) {
	path, err := s.readable(broadcast, epoch)
	if err != nil {
		return nil, "", err
	}
	sub, err := s.cfg.Origin.Subscribe(path, track, s.identity(), options)
	return sub, path, err
}

// readable is the path in the origin of a broadcast that the peer asks for: by
// TRACK, SUBSCRIBE or FETCH. It fails where the peer may not have it, and where
// epoch names another instance of the publisher than the one that is there.
func (s *Session) readable(broadcast string, epoch lite.Epoch) (model.Path, error) {
	if err := s.awaitSetup(); err != nil {
		return "", err
	}
	path, err := s.absolute(broadcast)
	if err != nil || s.cfg.Role == lite.RoleSubscriber {
		return "", model.ErrUnroutable
	}
	if !s.peer.granted().MaySubscribe(path) {
		return "", session.ErrForbidden
	}
	if epoch != (lite.Epoch{}) && s.cfg.Origin.Epoch(path, s.identity()) != epoch {
		return "", fmt.Errorf("the publisher's instance %x: %w", epoch, model.ErrUnroutable)
	}
	return path, nil
}

// delivery is one subscription of the peer while it runs.
type delivery struct {
	s     *Session
	st    transport.Stream
	id    uint64
	path  model.Path
	sub   *model.Subscription
	began time.Time
	over  func() // gives back what was claimed

	groups   sync.WaitGroup // those being sent
	handed   bool           // a group was; of the delivering goroutine
	accepted bool           // SUBSCRIBE_OK was written; of the delivering goroutine
	streams  uint64         // group streams that were begun; of the delivering goroutine
	skipped  int64          // bytes that are counted; of the delivering goroutine

	queue     *session.Queue // ranks the groups
	pacer     *session.Pacer // nil: nothing bounds the rate
	mu        sync.Mutex
	publisher uint8 // the track's own priority, once known; guarded by mu
}

func (s *Session) newDelivery(st transport.Stream, req *lite.Subscribe) (*delivery, error) {
	closed, err := s.openRequest()
	if err != nil {
		return nil, err
	}
	options := s.options(&req.Preferences)
	sub, path, err := s.subscribe(req.Broadcast, req.Epoch, req.Track, options)
	if err != nil {
		closed()
		return nil, err
	}
	s.requests.enter(path)
	s.tier.Subscriptions.Begin()
	d := &delivery{s: s, st: st, id: req.ID, path: path, sub: sub, began: time.Now()}
	d.queue = s.ranks.Queue(session.Key{Subscriber: options.Priority, Ordered: options.Ordered})
	var paced func()
	d.pacer, paced = s.pacer(path)
	s.enterDatagrams(sub, req.ID, d.pacer)
	d.over = sync.OnceFunc(func() {
		paced()
		s.leaveDatagrams(sub)
		sub.Close()
		s.requests.release(req.ID)
		closed()
		d.countSkipped()
		s.tier.Subscriptions.End()
	})
	return d, nil
}

// pacer is what bounds the rate of a broadcast to the peer.
func (s *Session) pacer(path model.Path) (p *session.Pacer, done func()) {
	if s.cfg.Pacer == nil {
		return nil, func() {}
	}
	return s.cfg.Pacer(path)
}

// serve delivers groups until the track ends or the peer has enough.
func (d *delivery) serve(in *wire.StreamReader) error {
	ctx, cancel := context.WithCancelCause(d.s.ctx)
	defer cancel(nil)
	var delivered error
	var late *time.Timer // stops the peer's half, which may outlive ours by endWait
	var task sync.WaitGroup
	task.Go(func() {
		delivered = d.deliver(ctx)
		d.finish(ctx, delivered)
		late = time.AfterFunc(endWait, func() { d.st.Stop(uint64(lite.StreamCancelled)) })
		cancel(errDelivered)
	})
	left := d.readUpdates(in)
	cancel(left)
	unblock := time.AfterFunc(endWait, func() { d.st.Reset(uint64(lite.StreamCancelled)) })
	task.Wait()
	unblock.Stop()
	late.Stop()
	if left != errPeerLeft {
		d.st.Stop(uint64(lite.StreamCancelled))
	}
	switch cause := context.Cause(ctx); {
	case cause == errDelivered && delivered == nil:
		return nil // finish has closed the stream
	case cause == errDelivered:
		return fmt.Errorf("subscription %d: %w", d.id, delivered)
	case cause == errPeerLeft:
		return d.st.Close()
	default:
		return fmt.Errorf("subscription %d: %w", d.id, cause)
	}
}

// errDelivered ends a subscription whose track is at its end.
var errDelivered = errors.New("all is delivered")

// readUpdates applies SUBSCRIBE_UPDATE until the peer leaves.
func (d *delivery) readUpdates(in *wire.StreamReader) error {
	for {
		body, err := in.Message()
		if peerLeft(err) {
			return errPeerLeft
		}
		if err != nil {
			return fmt.Errorf("SUBSCRIBE_UPDATE: %w", err)
		}
		msg, err := lite.DecodeSubscribeUpdate(body, d.s.version)
		if err != nil {
			return err
		}
		d.sub.Update(d.s.options(&msg.Preferences))
		d.rank()
	}
}

// rank applies the priorities as they are now to all groups, open ones included.
func (d *delivery) rank() {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.sub.Options()
	d.queue.Update(session.Key{Subscriber: o.Priority, Publisher: d.publisher, Ordered: o.Ordered})
}

// deliver hands out groups until there are no more. It returns nil when all
// groups below the end were sent, reset or dropped.
func (d *delivery) deliver(ctx context.Context) error {
	defer d.groups.Wait()
	if err := d.accept(ctx); err != nil {
		return err
	}
	for {
		err := d.sub.Await(ctx)
		if err == io.EOF {
			return d.end()
		}
		if err != nil {
			return err
		}
		if err := d.next(ctx); err != nil {
			return err
		}
	}
}

// next begins to send one of the groups that wait. Which one that is is decided
// when the peer has given credit for a stream: the newest there is then.
func (d *delivery) next(ctx context.Context) error {
	stream, err := d.open(ctx)
	if err != nil {
		return err
	}
	r := d.sub.Take()
	d.countSkipped()
	if r == nil { // nothing is left of what waited
		err = errNoGroup
	} else if err = d.begin(ctx, r); err != nil {
		r.Close()
	}
	if err != nil {
		stream.Reset(session.StreamCode(err))
		<-d.s.places
	}
	switch err {
	case nil:
		d.streams++
		d.groups.Go(func() {
			d.send(ctx, stream, r)
			<-d.s.places
		})
	case errNoGroup:
		return nil
	}
	return err
}

// countSkipped counts the groups that expired while they waited.
func (d *delivery) countSkipped() {
	skipped := d.sub.Skipped().Bytes
	d.s.tier.ExpiredBytes.Add(skipped - d.skipped)
	d.skipped = skipped
}

// errNoGroup ends a stream that was opened for a group which is gone.
var errNoGroup = fmt.Errorf("the group is not wanted any more: %w", model.ErrCancelled)

// open waits for a place among the groups that are being sent, and for a stream: a
// peer may give credit for any number of streams and read none of them.
func (d *delivery) open(ctx context.Context) (stream transport.SendStream, err error) {
	err = d.s.stall.Open(func() error {
		select {
		case d.s.places <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if stream, err = d.s.conn.OpenSendStream(ctx); err != nil {
			<-d.s.places
		}
		return err
	})
	return stream, err
}

// accept says SUBSCRIBE_OK where that comes first, and is all the acceptance there is.
func (d *delivery) accept(ctx context.Context) error {
	if d.s.version.HasSubscribeEnd() {
		return nil
	}
	info, err := d.sub.Info(ctx)
	if err != nil {
		return err
	}
	ok := lite.SubscribeOK{Preferences: lite.Preferences{
		Priority: d.sub.Options().Priority,
		MaxAge:   milliseconds(info.MaxAge),
	}}
	return d.respond(&ok)
}

// begin says SUBSCRIBE_OK with the first group, where it carries that, and ranks
// the groups by the track's own priority, which is known by now.
func (d *delivery) begin(ctx context.Context, r *model.Reader) error {
	select {
	case <-d.st.Stopped():
		return errStopped // it can still send groups, but nobody waits for them
	default:
	}
	if d.handed {
		return nil
	}
	d.handed = true
	info, err := d.sub.Info(ctx)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.publisher = info.Priority
	d.mu.Unlock()
	d.rank()
	if d.accepted {
		return nil
	}
	msg := &lite.SubscribeOK{}
	var ok bool
	if msg.Group, ok = d.sub.First(); !ok {
		msg.Group = r.Sequence()
	}
	msg.Largest.Value, msg.LargestFrame, msg.Largest.Set = d.sub.Largest()
	return d.respond(msg)
}

// end says where the track ends. Groups may still be on their way.
func (d *delivery) end() error {
	if !d.s.version.HasSubscribeEnd() {
		return nil
	}
	end, _ := d.sub.End()
	return d.respond(&lite.SubscribeEnd{Group: end, Streams: d.streams})
}

func (d *delivery) respond(msg lite.Response) error {
	b, err := msg.Append(nil, d.s.version)
	if err != nil {
		return err
	}
	d.accepted = true
	_, err = d.st.Write(b)
	return err
}

// finish ends our direction of the stream after delivery, unless the peer left
// first. What the subscription held is given back at once: the peer's half may
// never end.
func (d *delivery) finish(ctx context.Context, delivered error) {
	d.over()
	last := d.s.requests.exit(d.path)
	_, written := errors.AsType[*transport.StreamError](delivered)
	left := ctx.Err() != nil || written || errors.Is(delivered, errStopped)
	switch {
	case delivered == nil:
		d.lull(ctx)
		_ = d.st.Close()
	case errors.Is(delivered, errPeerLeft):
	default:
		code := session.StreamCode(delivered)
		if d.s.ctx.Err() != nil { // it may arrive before the connection's end does
			code = session.CodeSessionClosed
		}
		d.st.Reset(code)
		d.st.Stop(code)
	}
	if last && !left && d.accepted && !d.s.version.HasSubscribeEnd() {
		// No end of the stream reaches a JavaScript player of these versions: only
		// the end of the announcement does.
		d.s.announced.retract(d.path)
	}
}

// tailWait is how long our FIN of a Subscribe stream comes after all groups.
const tailWait = time.Second

// acknowledgeWait is how long a subscriber of 07 may take to acknowledge the end of
// a track by its own FIN, which it sends when it has seen every group stream.
const acknowledgeWait = 10 * time.Second

// lull waits before the FIN of a whole track. JavaScript players drop what they
// have not read of open groups when it comes, and on most transports it may
// overtake the groups. Whoever acts on SUBSCRIBE_END leaves by itself meanwhile.
func (d *delivery) lull(ctx context.Context) {
	if !d.s.version.HasSubscribeEnd() {
		return
	}
	wait := tailWait
	if !d.s.version.HasDrop() {
		wait = acknowledgeWait
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// send sends one group.
func (d *delivery) send(ctx context.Context, stream transport.SendStream, r *model.Reader) {
	group := lite.Group{SubscribeID: d.id, Sequence: r.Sequence(), FrameStart: r.First()}
	header, err := group.Append(wire.AppendVarint(make([]byte, 0, 32), uint64(lite.UniGroup)), d.s.version)
	if err != nil {
		stream.Reset(uint64(lite.StreamInternalError))
		r.Close()
		return
	}
	defer d.queue.Open(group.Sequence, stream).Close()
	form := d.s.form(header, r.First())
	form.Begun, form.Pacer = d.begun, d.pacer
	err = d.s.sender.Send(ctx, stream, r, form)
	if err != nil && d.s.ctx.Err() == nil {
		d.s.log.Debug("group cut short", "subscription", d.id, "group", group.Sequence, "error", err)
	}
}

// begun counts the time to the first byte of the first group.
func (d *delivery) begun() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.began.IsZero() {
		d.s.tier.FirstFrame.Observe(time.Since(d.began))
		d.began = time.Time{}
	}
}

// form is how the version writes a group that starts with frame first.
func (s *Session) form(header []byte, first uint64) session.Form {
	form := session.Form{Header: header}
	stored := s.version.HasTimestamps() && s.version.Form() == wire.QUIC
	if first == 0 && stored {
		return form
	}
	form.FirstOnly = stored
	var last int64 // timestamp of the frame before, on this stream
	form.Head = func(b []byte, f model.Frame) []byte {
		// The model holds no frame that does not fit.
		b, _ = lite.FrameHead{Timestamp: f.Timestamp, Size: uint64(f.Size)}.Append(b, s.version, last)
		last = f.Timestamp
		return b
	}
	return form
}

// options are the model's for what a subscriber asks.
func (s *Session) options(p *lite.Preferences) model.Options {
	o := model.Options{
		Priority:    p.Priority,
		Ordered:     p.Ordered,
		MaxLatency:  duration(p.MaxAge),
		End:         p.GroupEnd.Value,
		HasEnd:      p.GroupEnd.Set,
		FrameStart:  p.FrameStart,
		FrameEnd:    p.FrameEnd.Value,
		HasFrameEnd: p.FrameEnd.Set,
		Datagrams:   s.datagrams.queue,
	}
	switch {
	case s.version.HasGroupFloor():
		o.Expiry = model.ExpireByTimestamp
	case s.version.HasTimestamps():
		o.Expiry = model.ExpireByEither
	default:
		o.Expiry = model.ExpireByArrival
	}
	switch {
	case s.version.HasGroupFloor():
		o.Start = model.Start{Mode: model.StartFloor, Group: p.GroupStart.Value}
	case p.GroupStart.Set:
		o.Start = model.Start{Mode: model.StartGroup, Group: p.GroupStart.Value}
	}
	return o
}

// duration turns milliseconds on the wire into a duration, as far as it reaches.
func duration(ms uint64) time.Duration {
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// milliseconds is the inverse of duration.
func milliseconds(d time.Duration) uint64 { return uint64(max(0, d.Milliseconds())) }
