package lite

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// We report to whoever opens a Probe stream and open none ourselves: a relay
// passes on what it gets and chooses no rendition, so nothing here would use a
// publisher's report.

const (
	// probeEvery is how often a connection is looked at for its Probe streams.
	probeEvery = 100 * time.Millisecond
	// probeLongest is how long a report stays the last one.
	probeLongest = 10 * time.Second
	// probeMoved is by how much of what was reported a figure must have moved to
	// be reported at once.
	probeMoved = 0.25
	// mostProbes is how many Probe streams a peer may have open. One is of use.
	mostProbes = 4
)

// probeLevel is what SETUP declares: a transport that measures nothing by the
// time the session begins, such as one over TCP, has nothing to report.
func probeLevel(conn transport.Conn) lite.ProbeLevel {
	if s := conn.Stats(); s.RTT > 0 || s.Bitrate > 0 {
		return lite.ProbeReport
	}
	return lite.ProbeNone
}

// serveProbe reports on a Probe stream until the peer leaves it.
func (s *Session) serveProbe(st transport.Stream, in *wire.StreamReader) error {
	if s.probe == lite.ProbeNone {
		return errUnknownStream
	}
	defer s.probes.Add(-1)
	if s.probes.Add(1) > mostProbes {
		return fmt.Errorf("stream Probe: %w of %d streams", session.ErrLimit, mostProbes)
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { cancel(s.report(ctx, st)) })
	tasks.Go(func() { watchStopped(ctx, st, cancel) })
	off := context.AfterFunc(ctx, func() { st.Stop(uint64(lite.StreamCancelled)) })
	defer off()
	cancel(s.readTargets(in))
	unblock := time.AfterFunc(endWait, func() { st.Reset(uint64(lite.StreamCancelled)) })
	tasks.Wait()
	unblock.Stop()
	if cause := context.Cause(ctx); cause != errPeerLeft {
		return cause
	}
	return st.Close()
}

// readTargets reads the bitrates that the peer would have us pad up to, which we
// have not declared to do, until it leaves.
func (s *Session) readTargets(in *wire.StreamReader) error {
	for {
		body, err := in.Message()
		if peerLeft(err) {
			return errPeerLeft
		}
		if err != nil {
			return fmt.Errorf("PROBE: %w", err)
		}
		if _, err := lite.DecodeProbe(body, s.version); err != nil {
			return err
		}
	}
}

// report writes PROBE when there is something to say, until ctx is done.
func (s *Session) report(ctx context.Context, st transport.Stream) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var last lite.Probe
	var sent time.Time
	for {
		now := measured(s.conn.Stats(), s.version)
		if sent.IsZero() || probeDue(last, now, time.Since(sent)) {
			b, err := now.Append(nil, s.version)
			if err != nil {
				return err
			}
			if _, err := st.Write(b); err != nil {
				return err
			}
			last, sent = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// measured is the report of what a connection measures. What is known is at
// least 1: 0 says that it is not.
func measured(s transport.Stats, v lite.Version) lite.Probe {
	var p lite.Probe
	if s.Bitrate > 0 {
		p.Bitrate = min(uint64(s.Bitrate), wire.MaxVarint)
	}
	if s.RTT > 0 && v.HasProbeRTT() {
		p.RTT = max(1, uint64(s.RTT.Round(time.Millisecond).Milliseconds()))
	}
	return p
}

// probeDue reports whether a report is to be followed by another one after some
// time: a bitrate that moved by a share which falls from a quarter to nothing in
// ten seconds, a round-trip time that moved by a quarter, or ten seconds, unless
// nothing is known any more.
func probeDue(last, now lite.Probe, after time.Duration) bool {
	known := func(p lite.Probe) bool { return p.Bitrate > 0 || p.RTT > 0 }
	switch {
	case !known(now):
		return known(last)
	case after >= probeLongest:
		return true
	}
	left := 1 - float64(after)/float64(probeLongest)
	return change(last.Bitrate, now.Bitrate) > probeMoved*left || change(last.RTT, now.RTT) >= probeMoved
}

// change is by how much of its earlier value a figure has moved.
func change(before, now uint64) float64 {
	if before == now {
		return 0
	}
	if before == 0 {
		return math.Inf(1)
	}
	return math.Abs(float64(now)-float64(before)) / float64(before)
}
