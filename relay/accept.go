package relay

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/moqrelay/operator/relay/admin"
)

// What accepting a connection can fail by: admin.AcceptClasses.
const (
	failedConnection = "connection" // that one was gone before it was accepted
	failedExhausted  = "exhausted"  // no descriptors or no memory
	failedUnknown    = "unknown"
)

// How long accepting waits after a failure that is not one connection's own: the
// first time, and at most.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second
)

// acceptor is a listener that outlives failures which may pass. The kernel keeps
// those who come meanwhile.
type acceptor struct {
	net.Listener
	name string // admin.Listeners
	log  *slog.Logger

	closeOnce sync.Once
	closed    chan struct{}

	mu       sync.Mutex // guards the rest
	failures map[string]int64
	since    time.Time // when a stall began; zero while there is none
	class    string    // of the stall
	tries    int       // failures of the stall
}

func newAcceptor(inner net.Listener, name string, log *slog.Logger) *acceptor {
	return &acceptor{Listener: inner, name: name, log: log.With("listener", name), closed: make(chan struct{}), failures: make(map[string]int64)}
}

// Accept returns the next connection; the only error is that of a closed listener.
func (a *acceptor) Accept() (net.Conn, error) {
	backoff := firstBackoff
	for {
		conn, err := a.Listener.Accept()
		switch {
		case err == nil:
			a.recovered()
			return conn, nil
		case errors.Is(err, net.ErrClosed):
			return nil, err
		}
		if a.fail(err) == failedConnection {
			continue // it is off the queue: there is no way to spin
		}
		select {
		case <-time.After(backoff):
			backoff = min(2*backoff, lastBackoff)
		case <-a.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close ends a waiting Accept too.
func (a *acceptor) Close() error {
	a.closeOnce.Do(func() { close(a.closed) })
	return a.Listener.Close()
}

// fail counts a failure and returns its class. A stall is logged once.
func (a *acceptor) fail(err error) string {
	class := acceptClass(err)
	if a.note(class) {
		a.log.Error("cannot accept connections; those that come wait, and accepting is tried again at least each second", "error", err)
	}
	if class == failedConnection {
		a.log.Debug("a connection was gone before it was accepted", "error", err)
	}
	return class
}

// note counts a failure and reports whether a stall begins with it.
func (a *acceptor) note(class string) (stalls bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures[class]++
	if class == failedConnection {
		return false
	}
	stalls = a.since.IsZero()
	if stalls {
		a.since, a.class = time.Now(), class
	}
	a.tries++
	return stalls
}

// recovered ends a stall.
func (a *acceptor) recovered() {
	a.mu.Lock()
	since, tries := a.since, a.tries
	a.since, a.class, a.tries = time.Time{}, "", 0
	a.mu.Unlock()
	if tries > 0 {
		a.log.Warn("connections are accepted again", "failures", tries, "after", time.Since(since).Round(time.Millisecond).String())
	}
}

// count adds what was counted to stats. Without a listener there is nothing.
func (a *acceptor) count(stats *admin.Stats) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	failures := make(map[string]int64, len(a.failures))
	for class, n := range a.failures {
		failures[class] = n
	}
	stats.AcceptFailures[a.name] = failures
	if !a.since.IsZero() {
		stats.AcceptStalled[a.name] = map[string]time.Duration{a.class: time.Since(a.since)}
	}
}

func acceptClass(err error) string {
	for _, c := range []struct {
		class  string
		errors []error
	}{
		{failedConnection, []error{syscall.ECONNABORTED, syscall.EINTR, syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.ENETUNREACH}},
		{failedExhausted, []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}},
	} {
		for _, e := range c.errors {
			if errors.Is(err, e) {
				return c.class
			}
		}
	}
	return failedUnknown
}
