package lite

import (
	"errors"
	"fmt"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// Link is what makes a session one between two relays. Neither side asks the other
// for a grant: each may see and announce everything at and below [Config.Root],
// hidden paths included, and a request path means nothing. In the place of
// [Config.Limits] stand those of [session.LinkLimits].
type Link struct {
	// Price is added to the costs of all that the peer announces, at most 2^62-1;
	// nil: what the peer's SETUP says, else 1.
	Price *uint64
	// Met, if set, is called once, with the peer's hop id, when its SETUP is there
	// or is not waited for any more: then with 0, as on 03 and 04, which have none.
	// Before that nothing is shown to the peer or taken from it. An error ends the
	// session with NO_ERROR and that reason. It must not wait for the session.
	Met func(hop uint64) error
	// Stays makes GOAWAY, whoever says it, a matter of order alone: what is announced
	// over the link becomes the last choice, and may still be asked for. So what is
	// published at a relay that drains can be watched elsewhere until its publisher
	// has left too.
	Stays bool
}

// stays reports whether requests go on after GOAWAY.
func (s *Session) stays() bool { return s.cfg.Link != nil && s.cfg.Link.Stays }

// meet tells the link who the peer is, the first time that it is called. Each call
// returns what the link said.
func (s *Session) meet() error {
	if s.cfg.Link == nil || s.cfg.Link.Met == nil {
		return nil
	}
	s.peer.met.Do(func() {
		if err := s.cfg.Link.Met(s.identity().ID); err != nil {
			s.peer.unmet = &Error{Code: lite.SessionNoError, Err: err}
		}
	})
	return s.peer.unmet
}

// lostBehind reports whether the peer resets a stream with code because it ends, or,
// of a relay, because what is behind it is gone: not for what was asked. Another route
// may still lead there.
func (s *Session) lostBehind(code lite.StreamCode) bool {
	if s.cfg.Link == nil {
		return s.version >= lite.Lite06 && code == lite.StreamSessionClosed
	}
	return code == lite.StreamSessionClosed || code == lite.StreamGoingAway || code == lite.StreamUnroutable
}

// groupStream is the stream of a group: a reset that says that the group's source is
// gone reads like the end of the session, for so it is to viewers.
type groupStream struct {
	transport.ReceiveStream
	s *Session
}

func (g groupStream) Read(p []byte) (int, error) {
	n, err := g.ReceiveStream.Read(p)
	if reset, ok := errors.AsType[*transport.StreamError](err); ok && reset.Remote && g.s.lostBehind(lite.StreamCode(reset.Code)) {
		err = fmt.Errorf("%w: %w", model.ErrSourceGone, err)
	}
	return n, err
}

// price is what the link to the peer adds to each cost.
func (s *Session) price() uint64 {
	if l := s.cfg.Link; l != nil && l.Price != nil {
		return min(*l.Price, wire.MaxVarint)
	}
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	return s.peer.cost
}
