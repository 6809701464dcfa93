package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// Limits of the messages of an Auth stream.
const (
	// MaxToken is the longest token, in bytes: what fits a control message.
	MaxToken = wire.MaxControlMessage
	// MaxAuthReason is the longest reason of AUTH_ERROR, in bytes.
	MaxAuthReason = 8192
	// MaxAuthPatterns is the most patterns of one kind in AUTH_OK (our limit).
	MaxAuthPatterns = 1024
)

// Auth is AUTH (07-wip): a credential, presented on a stream of its own.
type Auth struct {
	// Token is opaque here. Do not log it.
	Token []byte
}

// Append appends the message to b.
func (m *Auth) Append(b []byte, v Version) ([]byte, error) {
	e := encode("AUTH", b, v, v.HasAuth())
	e.Bytes("token", m.Token, MaxToken)
	return e.close()
}

// DecodeAuth reads the body of AUTH.
func DecodeAuth(body []byte, v Version) (*Auth, error) {
	d := decode("AUTH", body, v, v.HasAuth())
	m := &Auth{Token: append([]byte(nil), d.Bytes("token", MaxToken)...)}
	return m, d.close()
}

// An AuthReply is what comes back on an Auth stream: [*AuthOK] or [*AuthError].
type AuthReply interface {
	// Append appends the message, type first.
	Append(b []byte, v Version) ([]byte, error)
	authReply()
}

// AuthOK is AUTH_OK (07-wip): what the token grants.
type AuthOK struct {
	// Publish and Subscribe are patterns of paths, at most [MaxAuthPatterns] each.
	Publish, Subscribe []string
	// Expires is in milliseconds how long the grant lasts; 0 means for ever.
	Expires uint64
}

// AuthError is AUTH_ERROR (07-wip): the token grants nothing.
type AuthError struct {
	// Code says why.
	Code SessionCode
	// Reason is for a person, at most [MaxAuthReason] bytes.
	Reason string
}

func (*AuthOK) authReply()    {}
func (*AuthError) authReply() {}

// Types of the replies.
const (
	typeAuthOK    = 0
	typeAuthError = 1
)

// Append appends the message to b, type first.
func (m *AuthOK) Append(b []byte, v Version) ([]byte, error) {
	e := encode("AUTH_OK", b, v, v.HasAuth())
	e.typ(typeAuthOK)
	e.patterns("publish patterns", m.Publish)
	e.patterns("subscribe patterns", m.Subscribe)
	e.Varint("expires", m.Expires)
	return e.close()
}

// Append appends the message to b, type first.
func (m *AuthError) Append(b []byte, v Version) ([]byte, error) {
	e := encode("AUTH_ERROR", b, v, v.HasAuth())
	e.typ(typeAuthError)
	e.Varint("code", uint64(m.Code))
	e.String("reason", m.Reason, MaxAuthReason)
	return e.close()
}

// DecodeAuthReply reads the body of a reply whose type is typ.
func DecodeAuthReply(typ uint64, body []byte, v Version) (AuthReply, error) {
	switch typ {
	case typeAuthOK:
		d := decode("AUTH_OK", body, v, v.HasAuth())
		m := &AuthOK{
			Publish:   d.patterns("publish patterns"),
			Subscribe: d.patterns("subscribe patterns"),
			Expires:   d.Varint("expires"),
		}
		return m, d.close()
	case typeAuthError:
		d := decode("AUTH_ERROR", body, v, v.HasAuth())
		m := &AuthError{Code: SessionCode(d.Varint("code")), Reason: d.String("reason", MaxAuthReason)}
		return m, d.close()
	}
	return nil, fmt.Errorf("AUTH reply: type: %w: %#x", wire.ErrMalformed, typ)
}

// ReadAuthReply reads the next reply of an Auth stream. Ends and errors are those
// of [wire.StreamReader.Message] and [DecodeAuthReply].
func ReadAuthReply(s *wire.StreamReader, v Version) (AuthReply, error) {
	typ, body, err := s.Typed()
	if err != nil {
		return nil, err
	}
	return DecodeAuthReply(typ, body, v)
}

// patterns writes a list of patterns.
func (e *encoder) patterns(field string, list []string) {
	if len(list) > MaxAuthPatterns {
		e.Fail(field, fmt.Errorf("%w: %d patterns, limit %d", wire.ErrTooLong, len(list), MaxAuthPatterns))
		return
	}
	e.Varint(field, uint64(len(list)))
	for _, pattern := range list {
		e.String(field, pattern, MaxPath)
	}
}

// patterns reads a list of patterns, nil when it is empty.
func (d *decoder) patterns(field string) []string {
	count := d.Varint(field)
	if count > MaxAuthPatterns {
		d.Fail(field, fmt.Errorf("%w: %d patterns, limit %d", wire.ErrTooLong, count, MaxAuthPatterns))
		return nil
	}
	var list []string
	for range count {
		if d.Err() != nil {
			return nil
		}
		list = append(list, d.String(field, MaxPath))
	}
	return list
}
