package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/session/lite"
)

// joined is a session that runs.
type joined struct {
	conn   *flushConn
	ctx    context.Context // ends with the session; its cause is why
	leave  context.CancelCauseFunc
	goaway chan string // gets the URI of the relay's GOAWAY
}

// join connects and runs the session as one of the tasks.
func join(ctx context.Context, tasks *sync.WaitGroup, target Target, cfg lite.Config) (*joined, error) {
	j := &joined{goaway: make(chan string, 1)}
	cfg.OnGoaway = func(uri string) { j.goaway <- uri }
	s, conn, err := connect(ctx, target, cfg)
	if err != nil {
		return nil, err
	}
	j.conn = conn
	j.ctx, j.leave = context.WithCancelCause(ctx)
	tasks.Go(func() { j.leave(lost(conn, s.Run(j.ctx))) })
	return j, nil
}

// How long a client waits before it connects again: the first time, and at most.
const (
	firstPatience = 100 * time.Millisecond
	lastPatience  = 2 * time.Second
)

// rejoin joins until that works: first where uri says, if it does, then at the
// target. The only error is the end of ctx.
func rejoin(ctx context.Context, tasks *sync.WaitGroup, target Target, uri string, cfg lite.Config, p *Progress) (*joined, error) {
	for wait := firstPatience; ; wait = min(2*wait, lastPatience) {
		to := target
		if uri != "" {
			to.URL, uri = uri, ""
		}
		j, err := join(ctx, tasks, to, cfg)
		if err == nil {
			p.connected(j.conn)
			return j, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		p.Say("cannot connect: %v", err)
		if err := pause(ctx, wait/2+rand.N(wait/2)); err != nil { //nolint:gosec // no secret
			return nil, err
		}
	}
}

// retire ends the session of a publisher when the relay has all that it asked for,
// or has ended it.
func (j *joined) retire() {
	j.conn.flush(j.ctx)
	j.leave(errDone)
}

var (
	errDone = errors.New("done")
	errGone = errors.New("the relay has ended the session")
)

// connect dials a target and prepares its session.
func connect(ctx context.Context, target Target, cfg lite.Config) (*lite.Session, *flushConn, error) {
	l, err := target.resolve(ctx)
	if err != nil {
		return nil, nil, err
	}
	dialled, version, err := l.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn := &flushConn{Conn: dialled}
	cfg.RequestPath = l.requestPath(dialled)
	return lite.New(conn, version, cfg), conn, nil
}

// lost is the error of a session that ended by itself.
func lost(conn *flushConn, err error) error {
	if err == nil {
		err = errGone
	}
	return fmt.Errorf("session with %v: %w", conn.Info().Remote, err)
}
