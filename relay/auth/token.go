package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxToken is the longest token in bytes.
const MaxToken = 16 << 10

// A KeySet is the keys that tokens are verified with, each with key_ops "verify".
// The zero value has none.
type KeySet struct{ keys []*Key }

// NewKeySet returns a set of keys. It fails for one that may not verify, and for
// two of the same kid.
func NewKeySet(keys ...*Key) (*KeySet, error) {
	set := &KeySet{}
	for _, k := range keys {
		if err := set.add(k); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func (s *KeySet) add(k *Key) error {
	if err := k.can("verify"); err != nil {
		return fmt.Errorf("key %q: %w: a key that is to check tokens needs it", k.ID, err)
	}
	for _, other := range s.keys {
		if k.ID != "" && other.ID == k.ID {
			return fmt.Errorf("key %q is there twice", k.ID)
		}
	}
	s.keys = append(s.keys, k)
	return nil
}

// parts are the pieces of a token in compact form.
type parts struct {
	alg, kid           string
	signed             string // what the signature is of
	payload, signature []byte
}

// Verify checks a token and returns what it says. The error names the header
// field, claim or key that is wrong.
func (s *KeySet) Verify(token string, now time.Time) (*Claims, error) {
	p, err := split(token)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	k, err := s.find(p.kid)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	c, err := k.check(p, now)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	return c, nil
}

// split takes a token apart.
func split(token string) (p parts, err error) {
	if len(token) > MaxToken {
		return p, fmt.Errorf("it has %d bytes, more than %d", len(token), MaxToken)
	}
	pieces := strings.Split(token, ".")
	if len(pieces) != 3 {
		return p, fmt.Errorf("it is no signed JWT: it has %d parts between dots, want 3", len(pieces))
	}
	var decoded [3][]byte
	for i, name := range []string{"header", "payload", "signature"} {
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(pieces[i]); err != nil {
			return p, fmt.Errorf("its %s is not base64url", name)
		}
	}
	p = parts{signed: pieces[0] + "." + pieces[1], payload: decoded[1], signature: decoded[2]}
	return p, p.readHeader(decoded[0])
}

func (p *parts) readHeader(text []byte) error {
	header, err := object(text)
	if err != nil {
		return fmt.Errorf("its header %w", err)
	}
	if _, critical := header["crit"]; critical {
		return errors.New(`header "crit": it demands extensions that are not known here`)
	}
	if p.alg, err = textOf(header, "alg"); err != nil {
		return fmt.Errorf("header %w", err)
	}
	if p.kid, err = textOf(header, "kid"); err != nil {
		return fmt.Errorf("header %w", err)
	}
	if _, err := algorithmNamed(p.alg); err != nil {
		return fmt.Errorf("header \"alg\": %w", err)
	}
	return nil
}

// find picks the key. Among several it must be named.
func (s *KeySet) find(kid string) (*Key, error) {
	switch {
	case len(s.keys) == 0:
		return nil, errors.New("there is no key here to check it with: look for the relay's own log lines about its keys")
	case kid == "" && len(s.keys) > 1:
		return nil, fmt.Errorf("header \"kid\" is missing and there are %d keys here: sign with a key that has a kid", len(s.keys))
	case kid == "":
		return s.keys[0], nil
	}
	for _, k := range s.keys {
		if k.ID == kid {
			return k, nil
		}
	}
	if len(s.keys) == 1 && s.keys[0].ID == "" {
		return s.keys[0], nil
	}
	return nil, fmt.Errorf("header \"kid\": no key %q here: add its public half to the relay's keys, or sign with another one", clip(kid))
}

// check verifies a token with the key.
func (k *Key) check(p parts, now time.Time) (*Claims, error) {
	if p.alg != k.alg.name {
		return nil, fmt.Errorf("header \"alg\" is %s and the key%s is for %s", p.alg, k.label(), k.alg.name)
	}
	if err := k.alg.method.Verify(p.signed, p.signature, k.verify); err != nil {
		return nil, fmt.Errorf("its signature is not one of the key%s: it was signed with another key, or changed on its way", k.label())
	}
	c, err := parseClaims(p.payload)
	if err != nil {
		return nil, err
	}
	if err := c.valid(now); err != nil {
		return nil, err
	}
	if k.scope != nil {
		if err := k.scope.admit(rules{publish: c.Publish, subscribe: c.Subscribe}); err != nil {
			return nil, fmt.Errorf("%w%s", err, k.label())
		}
	}
	return c, nil
}

// label is the kid, for messages.
func (k *Key) label() string {
	if k.ID == "" {
		return ""
	}
	return fmt.Sprintf(" %q", k.ID)
}
