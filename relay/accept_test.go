package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/admin"
)

// brokenListener fails by what errs says, then accepts.
type brokenListener struct {
	net.Listener
	errs   []error // the last one for ever
	at     []time.Time
	accept bool // after the errors
}

func (l *brokenListener) Accept() (net.Conn, error) {
	l.at = append(l.at, time.Now())
	if len(l.at) > len(l.errs) {
		if l.accept {
			return nil, nil
		}
		return nil, l.errs[len(l.errs)-1]
	}
	return nil, l.errs[len(l.at)-1]
}

func (l *brokenListener) Close() error { return nil }

// acceptError is an error as the net package gives it.
func acceptError(errno syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", errno)}
}

func stallStats(a *acceptor) admin.Stats {
	stats := admin.Stats{AcceptFailures: map[string]map[string]int64{}, AcceptStalled: map[string]map[string]time.Duration{}}
	a.count(&stats)
	return stats
}

func TestAcceptingBacksOffFrom50MillisecondsToASecond(t *testing.T) {
	for class, err := range map[string]error{failedExhausted: acceptError(syscall.EMFILE), failedUnknown: errors.New("odd")} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			inner := &brokenListener{errs: slices.Repeat([]error{err}, 7), accept: true}
			a := newAcceptor(inner, "tcp", slog.New(slog.NewTextHandler(&log, nil)))
			began := time.Now()
			done := make(chan error, 1)
			go func() {
				_, err := a.Accept()
				done <- err
			}()
			<-time.After(3500 * time.Millisecond) // after the 7th failure, at 2.55 s
			synctest.Wait()
			stats := stallStats(a)
			if n := stats.AcceptFailures["tcp"][class]; n != 7 {
				t.Errorf("%s: %d failures after 3.5 s, want 7", class, n)
			}
			if d := stats.AcceptStalled["tcp"][class]; d != 3500*time.Millisecond {
				t.Errorf("%s: stalled for %v, want 3.5 s", class, d)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			var waits []time.Duration
			for i := range inner.at[1:] {
				waits = append(waits, inner.at[i+1].Sub(inner.at[i]).Round(time.Millisecond))
			}
			ms := time.Millisecond
			if want := []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms}; !slices.Equal(waits, want) {
				t.Errorf("%s: it waited %v, want %v", class, waits, want)
			}
			if d := stallStats(a).AcceptStalled["tcp"]; d != nil || time.Since(began) != 3550*ms {
				t.Errorf("%s: after %v it is stalled for %v, want 3.55 s and no stall", class, time.Since(began), d)
			}
			if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "failures=7") {
				t.Errorf("%s: the log has %d lines, want one for the stall and one for its end:\n%s", class, n, log.String())
			}
		})
	}
}

func TestAConnectionThatIsGoneBeforeItIsAcceptedCostsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &brokenListener{errs: slices.Repeat([]error{acceptError(syscall.ECONNABORTED)}, 100), accept: true}
		a := newAcceptor(inner, "tcp", slog.New(slog.DiscardHandler))
		began := time.Now()
		if _, err := a.Accept(); err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v, want the next connection at once", time.Since(began), err)
		}
		stats := stallStats(a)
		if n := stats.AcceptFailures["tcp"][failedConnection]; n != 100 || stats.AcceptStalled["tcp"] != nil {
			t.Errorf("%d failures are counted, stalled for %v, want 100 and no stall", n, stats.AcceptStalled)
		}
	})
}

func TestClosingEndsAnAcceptThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcceptor(&brokenListener{errs: []error{acceptError(syscall.ENFILE)}}, "tcp", slog.New(slog.DiscardHandler))
		done := make(chan error, 1)
		go func() {
			_, err := a.Accept()
			done <- err
		}()
		<-time.After(time.Minute)
		_ = a.Close()
		_ = a.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("it ended with %v, want that it is closed", err)
		}
	})
}

func TestHandshakesBeyondTheRateWaitForTheNextSecond(t *testing.T) {
	var r rate
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	taken := func(n int) (got int) {
		for range n {
			if r.take(now, 10) {
				got++
			}
		}
		return got
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{0, 10},                     // one second's worth at once
		{0, 0},                      // and no more
		{250 * time.Millisecond, 2}, // a quarter of a second's
		{50 * time.Millisecond, 1},  // the half that was left over, and another
		{time.Hour, 10},             // never more than a second's
		{2000 * time.Millisecond, 10},
	} {
		now = now.Add(step.after)
		if got := taken(100); got != step.want {
			t.Errorf("%v later %d of 100 may begin, want %d", step.after, got, step.want)
		}
	}
	if !r.take(now, 0) {
		t.Error("without a rate one was refused")
	}
}
