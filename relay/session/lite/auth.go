package lite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// serveAuth answers AUTH, by which a peer of 07 presents a further token: what the
// token grants is the session's too, as long as the stream is open and the token
// has not expired. What is announced on streams that are open already stays as it
// was asked for.
func (s *Session) serveAuth(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "AUTH")
	if err != nil {
		return err
	}
	msg, err := lite.DecodeAuth(body, s.version)
	if err != nil {
		return err
	}
	if err := s.awaitSetup(); err != nil {
		return err
	}
	grant, err := s.grantFor(string(msg.Token))
	if err != nil {
		return s.answerAuth(st, &lite.AuthError{Code: lite.SessionUnauthorized, Reason: clip(err.Error())})
	}
	if !s.peer.add(&grant, s.cfg.Limits.Subscriptions) {
		return fmt.Errorf("stream Auth: %w", session.ErrLimit)
	}
	defer func() {
		if s.peer.remove(&grant) {
			s.lastWord()
			s.fail(&Error{Code: lite.SessionUnauthorized, Err: errExpired})
		}
	}()
	if err := writeReply(st, s.authOK(grant), s.version); err != nil {
		return err
	}
	if s.untilExpiry(st, in, grant.Expires) {
		expired := &lite.AuthError{Code: lite.SessionUnauthorized, Reason: "the token has expired: present a fresh one on a new stream"}
		return s.answerAuth(st, expired)
	}
	return st.Close()
}

// grantFor is what a token grants on top of what the session has. Its root must be
// the session's: names on the wire have one meaning.
func (s *Session) grantFor(token string) (session.Grant, error) {
	root := s.peer.granted().Root
	if s.conn.Info().Client || s.cfg.Authorize == nil {
		return session.Everything(root), nil
	}
	s.peer.mu.Lock()
	path, _, _ := strings.Cut(s.peer.request, "?")
	s.peer.mu.Unlock()
	grant, err := s.cfg.Authorize(s.ctx, path+"?jwt="+url.QueryEscape(token))
	switch {
	case err != nil:
		return grant, err
	case grant.Root != root:
		return grant, errors.New("the token is for another path than the session's")
	}
	return grant, nil
}

// authOK says what a grant allows, in names of the session.
func (s *Session) authOK(grant session.Grant) *lite.AuthOK {
	ok := &lite.AuthOK{Publish: relative(grant.Publish, grant.Root), Subscribe: relative(grant.Subscribe, grant.Root)}
	if !grant.Expires.IsZero() {
		ok.Expires = max(1, milliseconds(time.Until(grant.Expires)))
	}
	return ok
}

// relative are the patterns below root. A pattern that is not has a wildcard where
// root has a name, and is told as it is.
func relative(patterns []model.Pattern, root model.Path) (out []string) {
	for _, p := range patterns {
		text := p.String()
		switch {
		case text == string(root):
			text = ""
		case root != "":
			text = strings.TrimPrefix(text, string(root)+"/")
		}
		out = append(out, text)
	}
	return out
}

// untilExpiry waits for the end of the peer's half, and reports whether the grant
// expired before.
func (s *Session) untilExpiry(st transport.Stream, in *wire.StreamReader, expires time.Time) bool {
	ctx, cancel := s.ctx, context.CancelFunc(func() {})
	if !expires.IsZero() {
		ctx, cancel = context.WithDeadlineCause(s.ctx, expires, errExpired)
	}
	defer cancel()
	_ = readEnd(ctx, st, in)
	return errors.Is(context.Cause(ctx), errExpired)
}

// lastWord gives what was just written a moment to arrive before the session ends:
// a connection's end overtakes what its streams still hold.
func (s *Session) lastWord() {
	const moment = 200 * time.Millisecond
	select {
	case <-time.After(moment):
	case <-s.ctx.Done():
	}
}

// answerAuth writes a reply and ends the stream.
func (s *Session) answerAuth(st transport.Stream, reply lite.AuthReply) error {
	if err := writeReply(st, reply, s.version); err != nil {
		return err
	}
	st.Stop(uint64(lite.StreamCancelled))
	return st.Close()
}

func writeReply(st transport.Stream, reply lite.AuthReply, v lite.Version) error {
	b, err := reply.Append(nil, v)
	if err != nil {
		return err
	}
	_, err = st.Write(b)
	return err
}

// add makes a further grant part of what the peer may do, unless there are too many.
func (p *peer) add(g *session.Grant, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.further) >= most {
		return false
	}
	p.further = append(p.further, g)
	return true
}

// remove ends a further grant, and reports whether the peer has none left.
func (p *peer) remove(g *session.Grant) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, have := range p.further {
		if have == g {
			p.further = append(p.further[:i:i], p.further[i+1:]...)
			break
		}
	}
	return p.lapsed && len(p.further) == 0
}

// lapse ends the grant that the session began with, and reports whether the peer
// has no other.
func (p *peer) lapse() (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapsed = true
	p.grant.Publish, p.grant.Subscribe = nil, nil
	return len(p.further) == 0
}
