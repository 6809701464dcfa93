package lite

import (
	"errors"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// datagrams are the groups of a session that travel without a stream. Each way
// has a goroutine from the first time that something can come of it: a peer that
// only watches sends none, one that only publishes gets none.
type datagrams struct {
	queue   *model.DatagramQueue // to the peer; nil: this session has no datagrams
	receive sync.Once

	mu  sync.Mutex
	ids map[*model.Subscription]datagramFlow // the peer's subscriptions
}

// datagramFlow is how datagrams of a subscription go out.
type datagramFlow struct {
	id    uint64         // the peer's subscribe id
	pacer *session.Pacer // nil: nothing bounds the rate
}

// initDatagrams makes the session's queue where version and connection have datagrams.
func (s *Session) initDatagrams() {
	if s.version.HasDatagrams() && s.conn.MaxDatagram() > 0 {
		s.datagrams.queue = model.NewDatagramQueue(func() { s.tasks.Go(s.sendDatagrams) })
		s.datagrams.ids = make(map[*model.Subscription]datagramFlow)
	}
}

// enter takes a subscription of the peer into the books: its datagrams go out
// under this id.
func (s *Session) enterDatagrams(sub *model.Subscription, id uint64, pacer *session.Pacer) {
	d := &s.datagrams
	if d.queue == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids[sub] = datagramFlow{id, pacer}
}

func (s *Session) leaveDatagrams(sub *model.Subscription) {
	s.datagrams.mu.Lock()
	defer s.datagrams.mu.Unlock()
	delete(s.datagrams.ids, sub)
}

func (d *datagrams) flow(sub *model.Subscription) (datagramFlow, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	flow, ok := d.ids[sub]
	return flow, ok
}

// sendDatagrams passes on what publishers send as datagrams, until the session
// ends. One that cannot be sent harms nothing else.
func (s *Session) sendDatagrams() {
	var buf []byte
	for {
		d, err := s.datagrams.queue.Next(s.ctx)
		if err != nil {
			return
		}
		flow, ok := s.datagrams.flow(d.Subscription)
		if !ok || d.Timestamp < 0 || !flow.pacer.Try(len(d.Payload)) {
			continue
		}
		msg := lite.Datagram{SubscribeID: flow.id, Sequence: d.Sequence, Timestamp: uint64(d.Timestamp), Payload: d.Payload}
		if buf, err = msg.Append(buf[:0], s.version); err == nil {
			s.sendDatagram(buf, len(d.Payload))
		}
	}
}

// sendDatagram sends one, and counts it with its payload.
func (s *Session) sendDatagram(body []byte, payload int) {
	if len(body) > lite.MaxDatagram {
		s.counters.DatagramsTooLarge.Add(1)
		return
	}
	err := s.conn.SendDatagram(body)
	if _, large := errors.AsType[*transport.DatagramTooLargeError](err); large {
		s.counters.DatagramsTooLarge.Add(1)
	}
	if err == nil {
		s.out.Datagrams.Add(1)
		s.out.Bytes.Add(int64(payload))
	}
}

// expectDatagrams begins to take the peer's datagrams.
func (s *Session) expectDatagrams() {
	if s.datagrams.queue != nil {
		s.datagrams.receive.Do(func() { s.tasks.Go(s.receiveDatagrams) })
	}
}

// receiveDatagrams takes the peer's datagrams until the session ends.
func (s *Session) receiveDatagrams() {
	for {
		body, err := s.conn.ReceiveDatagram(s.ctx)
		if err != nil {
			return
		}
		s.takeDatagram(body)
	}
}

// takeDatagram gives one to its track. One of a subscription that has ended, or
// that TRACK_INFO is not here for, is dropped.
func (s *Session) takeDatagram(body []byte) {
	msg, err := lite.DecodeDatagram(body, s.version)
	if err != nil {
		s.counters.Malformed.Add(1)
		return
	}
	p := s.pulls.find(msg.SubscribeID)
	if p == nil || !p.isAccepted() {
		return
	}
	s.in.Datagrams.Add(1)
	s.in.Bytes.Add(int64(len(msg.Payload)))
	p.producer.Datagram(msg.Sequence, int64(msg.Timestamp), msg.Payload)
}
