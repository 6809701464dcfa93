package lite

import (
	"context"
	"fmt"

	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// countFor chooses where the session's traffic is counted, by its grant's tier.
func (s *Session) countFor(tier string) {
	s.tier = s.counters
	if s.cfg.CountersFor != nil {
		s.tier = s.cfg.CountersFor(tier)
	}
	s.in, s.out = s.tier.In.Meter(), s.tier.Out.Meter()
	s.sender = session.NewSender(s.tier, s.stall)
}

// counted is where requests are counted: for the session's tier, once that is known.
func (s *Session) counted() *session.Counters {
	select {
	case <-s.peer.ready:
		if s.tier != nil {
			return s.tier
		}
	default:
	}
	return s.counters
}

// stalled ends a session whose peer takes nothing of the groups that it asked for.
// There is no code for that on a session; the number is the one of streams.
func (s *Session) stalled() {
	s.counters.Stalled.Add(1)
	s.fail(&Error{
		Code: lite.SessionCode(lite.StreamTooFarBehind),
		Err:  fmt.Errorf("too far behind: no group's byte was taken for %v", s.cfg.Limits.StalledTimeout),
	})
}

// openStream opens a stream for a request of ours, which goes before all groups.
func (s *Session) openStream(ctx context.Context) (transport.Stream, error) {
	st, err := s.conn.OpenStream(ctx)
	if err == nil {
		st.SetPriority(session.Control)
	}
	return st, err
}
