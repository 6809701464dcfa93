package lite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// Config is what a session needs beside its connection.
type Config struct {
	// Origin is where announcements go to and tracks come from. Required.
	Origin *model.Origin
	// Root stands in front of every name of the session in Origin. On the server's
	// side the path of the client's request follows it.
	Root model.Path
	// Authorize says what a client may do that asks for a path, such as
	// "/room/1?jwt=x"; "" where it names none. It is called once, on the server's
	// side, when the path is known and before anything is kept for the session; an
	// error refuses the session. Nil: everything at and below Root and that path.
	// Otherwise the grant's root takes the place of both.
	Authorize func(ctx context.Context, requestPath string) (session.Grant, error)
	// RequestPath is what a client asks for, with its query, on a transport that
	// has no request URI. It travels in SETUP; 03 and 04 cannot say it.
	RequestPath string
	// Role is what this side does. RoleBoth, the zero value, is a relay. A
	// RolePublisher asks for no announcements; a RoleSubscriber shows and serves
	// nothing.
	Role lite.Role
	// Limits bound what the peer may hold here; see [Config.Link].
	Limits session.Limits
	// Link makes the session one with another relay; nil: with a client.
	Link *Link
	// Counters count what happens; nil keeps them for this session alone.
	Counters *session.Counters
	// CountersFor, if set, is where the traffic and the requests of a session are
	// counted whose grant has this tier. It is called once, when that is known.
	CountersFor func(tier string) *session.Counters
	// Admit, if set, may refuse the session when its grant is known, before anything
	// is kept for it. It is called once.
	Admit func(session.Grant) error
	// Pacer, if set, bounds what goes to the peer of one broadcast, an absolute path;
	// nil does not. It is called for each request of the peer for groups, and done
	// at the end of that.
	Pacer func(path model.Path) (p *session.Pacer, done func())
	// Log receives the session's events; nil discards them.
	Log *slog.Logger
	// OnGoaway, if set, is called once when the peer says GOAWAY, with the URI it
	// names, "" for none. The session goes on; it opens nothing new.
	OnGoaway func(uri string)
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.Link != nil {
		c.Limits, c.Authorize = session.LinkLimits(), nil
	}
	c.Limits = c.Limits.WithDefaults()
	if c.Counters == nil {
		c.Counters = &session.Counters{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// An Error is a fault that ends a session. It is the cause of what [Session.Run]
// returns when we closed the connection for it.
type Error struct {
	// Code is what the connection was closed with.
	Code lite.SessionCode
	// Err names the fault.
	Err error
}

// Error names the code and the fault.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Code, e.Err) }

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Err }

// violation is an Error for a rule that the peer broke.
func violation(format string, args ...any) *Error {
	return &Error{Code: lite.SessionProtocolViolation, Err: fmt.Errorf(format, args...)}
}

// Session is one peer. Make it with [New] and run it with [Session.Run]; the
// other methods may be called from any goroutine meanwhile.
type Session struct {
	conn     transport.Conn
	version  lite.Version
	cfg      Config
	log      *slog.Logger
	counters *session.Counters
	ranks    *session.Ranks
	window   model.Window
	began    time.Time // for the arrival times of sources without timestamps
	probe    lite.ProbeLevel

	ctx    context.Context // of everything the session does; set by Run
	cancel context.CancelCauseFunc
	tasks  tasks
	peer   peer

	draining atomic.Bool // we said GOAWAY
	goneAway atomic.Bool // the peer said it
	farewell farewell
	work     work

	probes    atomic.Int32  // Probe streams of the peer
	fetches   chan struct{} // of the peer that are answered
	asking    chan struct{} // for groups of the peer
	datagrams datagrams

	places chan struct{}  // of groups that are being sent
	stall  *session.Stall // watches whether the peer takes them

	// set when the grant is known, before peer.ready is closed
	tier    *session.Counters
	in, out session.Meter // the session's own part of tier
	sender  *session.Sender

	requests  requests  // what the peer asked for
	pulls     pulls     // what we asked the peer for
	heard     heard     // what the peer announced
	announced announced // what we announce to the peer
}

// New returns a session on conn that speaks version.
func New(conn transport.Conn, version lite.Version, cfg Config) *Session {
	cfg = cfg.withDefaults()
	s := &Session{
		conn: conn, version: version, cfg: cfg, counters: cfg.Counters,
		log:    cfg.Log.With("remote", conn.Info().Remote, "version", version.String()),
		window: session.NewWindow(conn),
		ranks:  session.NewRanks(),
		probe:  probeLevel(conn),
		began:  time.Now(),
	}
	s.peer.ready = make(chan struct{})
	s.places = make(chan struct{}, s.cfg.Limits.Groups)
	s.stall = session.NewStall(s.cfg.Limits.StalledTimeout, s.stalled)
	s.fetches = make(chan struct{}, s.cfg.Limits.Fetches)
	s.asking = make(chan struct{}, mostAsking)
	s.requests.byID = make(map[uint64]struct{})
	s.pulls.byID = make(map[uint64]*pull)
	s.heard.live = make(map[*hearing]struct{})
	s.announced.streams = make(map[*announcer]struct{})
	s.initDatagrams()
	return s
}

// Serve makes a session and runs it.
func Serve(ctx context.Context, conn transport.Conn, version lite.Version, cfg Config) error {
	return New(conn, version, cfg).Run(ctx)
}

// Run holds the whole conversation and returns when it is over and all that it
// started has ended. When ctx is done it closes the connection: with NO_ERROR, or
// with GOAWAY_TIMEOUT after [Session.GoAway].
//
// The error is nil when ctx was done, after [Session.Leave], or when the peer closed
// with NO_ERROR. It is an
// [*Error] when we closed for a fault, and else the connection's end.
func (s *Session) Run(ctx context.Context) error {
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	defer s.cancel(nil)
	if err := s.begin(); err != nil {
		s.fail(err)
	} else {
		s.acceptStreams()
	}
	err := s.ending(ctx)
	s.stall.Close()
	s.tasks.Wait()
	s.log.Debug("session ended", "error", err)
	return err
}

// begin says SETUP and then starts all but the accepting of bidirectional streams.
func (s *Session) begin() error {
	if err := s.sendSetup(); err != nil {
		return err
	}
	if err := s.expectSetup(); err != nil {
		return err
	}
	s.tasks.Go(s.acceptReceiveStreams)
	if s.cfg.Role != lite.RolePublisher {
		s.tasks.Go(s.hear)
	}
	s.farewell.begin(s.tasks.Go)
	return nil
}

// fail ends the session. Only the first call counts.
func (s *Session) fail(err error) { s.cancel(err) }

// ending closes the connection for the reason that the session's context ended
// with, and returns what Run returns.
func (s *Session) ending(parent context.Context) error {
	cause := context.Cause(s.ctx)
	if fault, ok := errors.AsType[*Error](cause); ok {
		s.conn.Close(uint64(fault.Code), fault.Err.Error())
		if fault.Err == errLeft {
			return nil
		}
		return cause
	}
	if closed, ok := errors.AsType[*transport.CloseError](cause); ok && closed.Remote && !closed.Transport && closed.Code == uint64(lite.SessionNoError) {
		return nil
	}
	if parent.Err() == nil {
		s.conn.Close(uint64(lite.SessionInternalError), "")
		return cause
	}
	if s.draining.Load() {
		s.conn.Close(uint64(lite.SessionGoawayTimeout), "going away")
	} else {
		s.conn.Close(uint64(lite.SessionNoError), "")
	}
	return nil
}

// Stats is a snapshot of a session.
type Stats struct {
	// Transport and Version say what it speaks.
	Transport transport.Kind
	Version   lite.Version
	// Requests is how many Subscribe and Track streams the peer has open.
	Requests int
	// Pulls is how many tracks we ask the peer for.
	Pulls int
	// Announcements is how many routes the peer announces that are used.
	Announcements int
	// PeerHop is the peer's hop id; 0 while it is unknown.
	PeerHop uint64
	// Draining is true after GoAway, GoneAway after the peer's GOAWAY.
	Draining, GoneAway bool
}

// Stats returns what the session holds now.
func (s *Session) Stats() Stats {
	return Stats{
		Transport:     s.conn.Info().Kind,
		Version:       s.version,
		Requests:      s.requests.count(),
		Pulls:         s.pulls.count(),
		Announcements: s.heard.count(),
		PeerHop:       s.identity().ID,
		Draining:      s.draining.Load(),
		GoneAway:      s.goneAway.Load(),
	}
}

// absolute returns the path in the origin for a name on the wire, which is in
// normal form.
func (s *Session) absolute(name string) (model.Path, error) {
	p, err := model.ParsePath(name)
	if err != nil {
		return "", err
	}
	return s.peer.granted().Root.Join(p)
}

// arrival is the timestamp, in milliseconds, of what arrives now: the time of
// day when the session began, and a clock from there that is never set back.
func (s *Session) arrival() int64 {
	return s.began.UnixMilli() + time.Since(s.began).Milliseconds()
}

// unreadable reports whether an error says that the peer's bytes make no sense.
func unreadable(err error) bool {
	return errors.Is(err, wire.ErrMalformed) || errors.Is(err, lite.ErrVersion) || errors.Is(err, session.ErrMalformed)
}

// tasks are the goroutines of a session.
type tasks struct {
	mu     sync.Mutex
	closed bool // Wait was called
	wg     sync.WaitGroup
}

// Go runs f, and reports false where nobody would wait for it any more.
func (t *tasks) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

// Wait waits for all that runs and lets nothing new begin.
func (t *tasks) Wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}
