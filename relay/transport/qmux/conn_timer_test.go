package qmux

import (
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// advance lets fake time pass.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (p *peer) wantEnd(want error) {
	p.t.Helper()
	synctest.Wait()
	if !errors.Is(p.conn.Err(), want) {
		p.t.Errorf("the end is %v, want %v", p.conn.Err(), want)
	}
}

func TestAnIdleSessionPingsAndThenEnds(t *testing.T) {
	for _, d := range []Draft{Draft01, Draft02} {
		synctest.Test(t, func(t *testing.T) {
			p := greeted(t, d, false, released(d)) // 30 s on both sides
			advance(10*time.Second - 1)
			p.wantSent()
			advance(1)
			p.wantSent("f48c67529ef8c7bd00")
			advance(10 * time.Second)
			p.wantSent("f48c67529ef8c7bd01")
			// Only the first of ours restarted the timer, at 10 s.
			advance(20*time.Second - 1)
			p.wantSent("f48c67529ef8c7bd02")
			p.wantOpen()
			advance(1)
			p.wantEnd(ErrIdle)
			p.wantSent("shut") // no close frame
		})
	}
}

func TestAnAnsweredSessionDoesNotIdleOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		for i := range 20 {
			advance(10 * time.Second)
			p.wantSent(hex.EncodeToString(appendFrame(nil, framePingRequest, uint64(i))))
			p.put(hex.EncodeToString(appendFrame(nil, framePingResponse, uint64(i))))
		}
		p.wantOpen()
	})
}

func TestTheSmallerIdleTimeoutCounts(t *testing.T) {
	for _, row := range []struct{ ours, theirs, want uint64 }{
		{30000, 3000, 3000}, {3000, 30000, 3000}, {0, 6000, 6000}, {6000, 0, 6000},
	} {
		synctest.Test(t, func(t *testing.T) {
			local, remote := released(Draft02), released(Draft02)
			local.idleTimeout, remote.idleTimeout = row.ours, row.theirs
			p := newPeer(t, Draft02, false, local)
			p.put(hex.EncodeToString(appendParams(nil, remote)))
			want := time.Duration(row.want) * time.Millisecond
			advance(want/3 + want - 1) // our ping restarted it once
			p.wantOpen()
			advance(1)
			p.wantEnd(ErrIdle)
		})
	}
}

func TestWithoutAnIdleTimeoutNothingEndsTheSession(t *testing.T) {
	for _, d := range Drafts() {
		synctest.Test(t, func(t *testing.T) {
			local, remote := released(d), released(d)
			local.idleTimeout, remote.idleTimeout = 0, 0
			if d == Draft00 {
				local.idleTimeout = 30000 // it has no timer there
			}
			p := newPeer(t, d, false, local)
			p.put(hex.EncodeToString(appendParams(nil, remote)))
			advance(24 * time.Hour)
			p.wantOpen()
			p.wantSent()
		})
	}
}

func TestParametersMustComeWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, Draft02, false, released(Draft02))
		advance(10*time.Second - 1)
		p.wantOpen()
		advance(1)
		p.wantEnd(ErrHandshake)
	})
}

func TestAnEndThatTheCarrierHoldsUpIsForcedAfterTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		p.mu.Lock()
		p.hold = make(chan struct{})
		p.mu.Unlock()
		p.put("f48c67529ef8c7bd00") // the answer is stuck in the carrier
		p.conn.Close(7, "bye")
		<-p.conn.Done() // at once
		advance(closeGrace - 1)
		select {
		case <-p.closed:
			t.Error("the carrier was closed before the grace was over")
		default:
		}
		advance(1)
		<-p.closed
	})
}

// pingCarrier is a carrier with pings of its own.
type pingCarrier struct {
	*memCarrier
	heard func()
	asked func([]byte)
}

func (m *pingCarrier) watch(heard func(), asked func([]byte)) { m.heard, m.asked = heard, asked }
func (m *pingCarrier) ping() error                            { return m.note("ping") }
func (m *pingCarrier) pong(p []byte) error                    { return m.note("pong " + string(p)) }

func (m *pingCarrier) note(s string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, s)
	return nil
}

func newPingPeer(t *testing.T) (*peer, *pingCarrier) {
	t.Helper()
	m := &pingCarrier{memCarrier: newMemCarrier()}
	p := &peer{t: t, memCarrier: m.memCarrier}
	local := released(Draft00)
	p.conn = newConn(m, Draft00, local, transport.Info{})
	p.conn.start()
	t.Cleanup(p.close)
	p.put(hex.EncodeToString(appendParams(nil, local)))
	p.take()
	return p, m
}

func TestASilentPeerIsPingedEveryFiveSecondsAndGivenUpAfterThirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := newPingPeer(t)
		advance(5*time.Second - 1)
		p.wantSent()
		advance(1)
		p.wantSent("ping")
		advance(5 * time.Second)
		p.wantSent("ping")
		m.heard() // its pong, at 10 s
		advance(30*time.Second - 1)
		p.wantSent("ping", "ping", "ping", "ping", "ping")
		p.wantOpen()
		advance(1)
		p.wantEnd(ErrSilent)
		p.wantSent("shut")
	})
}

func TestTheCarriersPingIsAnsweredAndIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, m := newPingPeer(t)
		advance(4 * time.Second)
		m.asked([]byte("x"))
		p.wantSent("pong x")
		advance(30*time.Second - 1) // of which the first second completes five
		p.wantOpen()
		advance(1)
		p.wantEnd(ErrSilent)
	})
}

func TestOnlyOneAnswerToPingsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		hold := make(chan struct{})
		p.mu.Lock()
		p.hold = hold
		p.mu.Unlock()
		p.put("f48c67529ef8c7bd00") // its answer is in the carrier's hands
		p.put("f48c67529ef8c7bd01", "f48c67529ef8c7bd02", "f48c67529ef8c7bd03")
		<-hold
		p.wantSent("f48c67529ef8c7be00", "f48c67529ef8c7be03")
		<-hold
	})
}
