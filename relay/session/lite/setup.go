package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

const (
	// setupWait is how long we wait for the peer's SETUP before we take it as empty.
	setupWait = 2 * time.Second
	// setupSend is how long our own SETUP may wait for the peer's credit.
	setupSend = 10 * time.Second
)

// peer is what we know of the other side.
type peer struct {
	ready      chan struct{} // closed when SETUP is here, or is not waited for any more
	authorized sync.Once     // grant was found
	met        sync.Once     // Link.Met was called
	unmet      error         // what it said to that; set by met

	overreached atomic.Bool // it announced what its grant does not have

	mu     sync.Mutex // guards the rest
	told   bool       // a Setup stream was seen
	closed bool       // ready is closed
	hop    uint64     // 0 = unknown
	cost   uint64     // price of the link
	grant  session.Grant
	// what 07 can add, see auth.go
	request string           // that grant was asked for with
	further []*session.Grant // of open Auth streams
	lapsed  bool             // grant has expired
}

// release closes ready.
func (p *peer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.ready)
	}
}

// learnHop notes the peer's id where SETUP did not say it.
func (p *peer) learnHop(hop uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hop == 0 {
		p.hop = hop
	}
}

// granted is what the peer may do: nothing, until that is known.
func (p *peer) granted() session.Grant {
	p.mu.Lock()
	defer p.mu.Unlock()
	grant := p.grant
	for _, g := range p.further {
		grant.Publish = append(slices.Clip(grant.Publish), g.Publish...)
		grant.Subscribe = append(slices.Clip(grant.Subscribe), g.Subscribe...)
	}
	return grant
}

// identity is on whose behalf the origin is asked.
func (s *Session) identity() model.Peer {
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	return model.Peer{ID: s.peer.hop, Source: s}
}

// sendSetup opens our Setup stream, which must be our very first, and says SETUP.
func (s *Session) sendSetup() error {
	if !s.version.HasSetup() {
		return nil
	}
	late := &Error{Code: lite.SessionControlMessageTimeout, Err: errors.New("no credit for our Setup stream")}
	ctx, cancel := context.WithTimeoutCause(s.ctx, setupSend, late)
	defer cancel()
	st, err := s.conn.OpenSendStream(ctx)
	if err != nil {
		return fmt.Errorf("open Setup stream: %w", err)
	}
	st.SetPriority(session.Control)
	msg := lite.Setup{Probe: s.probe, Hop: s.cfg.Origin.ID()}
	if info := s.conn.Info(); info.Client {
		msg.Role = s.cfg.Role
		if !info.HasURI {
			msg.Path = s.cfg.RequestPath
		}
	}
	b, err := msg.Append(wire.AppendVarint(nil, uint64(lite.UniSetup)), s.version)
	if err != nil {
		return fmt.Errorf("our SETUP: %w", err)
	}
	if _, err := st.Write(b); err != nil {
		return fmt.Errorf("write SETUP: %w", err)
	}
	return st.Close()
}

// expectSetup finds what the peer may do where its path is known, and begins to
// wait for its SETUP.
func (s *Session) expectSetup() error {
	info := s.conn.Info()
	s.peer.cost = 1
	if info.Client || info.HasURI || s.cfg.Link != nil || !s.version.HasSetup() {
		if err := s.authorize(info.Path); err != nil {
			return err
		}
	}
	if !s.version.HasSetup() {
		return s.settle(info.Path)
	}
	timer := time.AfterFunc(setupWait, func() {
		if err := s.settle(""); err != nil {
			s.fail(err)
		}
	})
	context.AfterFunc(s.ctx, func() { timer.Stop() })
	return nil
}

// settle lets everything go on that waited for the peer's SETUP. Where that was
// to bring the request path, path is it.
func (s *Session) settle(path string) error {
	if err := s.meet(); err != nil {
		return err // whoever waits sees the session's end
	}
	err := s.authorize(path)
	s.peer.release()
	return err
}

// authorize finds what the peer may do, for a request path such as
// "/room/1?jwt=x". Only the first call counts; others wait for it.
func (s *Session) authorize(request string) (err error) {
	s.peer.authorized.Do(func() {
		var grant session.Grant
		if grant, err = s.grant(request); err != nil {
			return
		}
		if s.cfg.Admit != nil {
			if err = s.cfg.Admit(grant); err != nil {
				err = &Error{Code: lite.SessionInternalError, Err: err} // there is no code for it
				return
			}
		}
		s.peer.mu.Lock()
		s.peer.grant, s.peer.request = grant, request
		s.peer.mu.Unlock()
		s.countFor(grant.Tier)
		s.expire(grant.Expires)
	})
	return err
}

// grant asks for the peer's grant.
func (s *Session) grant(request string) (session.Grant, error) {
	if s.conn.Info().Client || s.cfg.Link != nil {
		return session.Everything(s.cfg.Root), nil
	}
	if s.cfg.Authorize == nil {
		root, err := s.requestRoot(request)
		return session.Everything(root), err
	}
	grant, err := s.cfg.Authorize(s.ctx, request)
	if err != nil {
		return grant, &Error{Code: lite.SessionUnauthorized, Err: err}
	}
	return grant, nil
}

// errExpired ends a session whose grant has lapsed.
var errExpired = errors.New("the session's grant has expired: connect with a fresh token")

// expire ends the session at that time; zero: never.
func (s *Session) expire(at time.Time) {
	if at.IsZero() {
		return
	}
	timer := time.AfterFunc(time.Until(at), func() {
		if s.peer.lapse() {
			s.fail(&Error{Code: lite.SessionUnauthorized, Err: errExpired})
		}
	})
	context.AfterFunc(s.ctx, func() { timer.Stop() })
}

// requestRoot is the root for a request path.
func (s *Session) requestRoot(request string) (model.Path, error) {
	request, _, _ = strings.Cut(request, "?")
	decoded, err := url.PathUnescape(request)
	if err != nil {
		return "", violation("request path: %w", err)
	}
	below, err := model.ParsePath(decoded)
	if err != nil {
		return "", violation("request path: %w", err)
	}
	root, err := s.cfg.Root.Join(below)
	if err != nil {
		return "", violation("request path: %w", err)
	}
	return root, nil
}

// awaitSetup waits until the peer's SETUP is here, or was waited for long enough.
func (s *Session) awaitSetup() error {
	select {
	case <-s.peer.ready:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// receiveSetup reads the peer's Setup stream, behind its type.
func (s *Session) receiveSetup(in io.Reader) error {
	if !s.peer.tell() {
		return violation("a second Setup stream")
	}
	r := s.version.Reader(in, lite.MaxSetup)
	body, err := r.Message()
	if err != nil {
		return fmt.Errorf("SETUP: %w", err)
	}
	msg, err := lite.DecodeSetup(body, s.version)
	if err != nil {
		return err
	}
	if err := s.applySetup(msg); err != nil {
		return err
	}
	if err := r.End(); err != nil && !peerLeft(err) {
		return fmt.Errorf("behind SETUP: %w", err)
	}
	return nil
}

// tell notes that a Setup stream is here, and reports whether it is the first.
func (p *peer) tell() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.told
	p.told = true
	return first
}

// applySetup takes over what the peer says of itself.
func (s *Session) applySetup(msg *lite.Setup) error {
	if !s.conn.Info().Client && msg.Path != "" {
		if err := s.mayNamePath(); err != nil {
			return err
		}
	}
	s.peer.mu.Lock()
	s.peer.hop = msg.Hop
	if msg.Cost.Set {
		s.peer.cost = msg.Cost.Value
	}
	s.peer.mu.Unlock()
	return s.settle(msg.Path)
}

// mayNamePath reports whether SETUP may have a path: where the transport has none,
// and in time.
func (s *Session) mayNamePath() error {
	if s.conn.Info().HasURI {
		return violation("SETUP: a path, though the transport has a request URI")
	}
	select {
	case <-s.peer.ready:
		return &Error{
			Code: lite.SessionControlMessageTimeout,
			Err:  fmt.Errorf("SETUP: a path came later than %v", setupWait),
		}
	default:
		return nil
	}
}
