package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
)

// The tiers of grants, for metrics.
const (
	TierToken       = "token"
	TierCertificate = "certificate"
	TierPublic      = "public"
)

// Rules are what needs no credential. They may change while the relay runs.
type Rules struct {
	// Publish and Subscribe are what anyone may do, absolute.
	Publish, Subscribe []model.Pattern
}

// Config says where the keys are and what certificates grant. At least one thing
// must let somebody in.
type Config struct {
	// Key is a file with one JWK, KeyDirectory a directory of files KID.jwk, and
	// JWKS a file or https URL with a JWK Set; "" is none. They add up.
	Key, KeyDirectory, JWKS string
	// ClientCA is a PEM file with the authorities of client certificates; "" asks
	// clients for none.
	ClientCA string
	// CertificatePublish and CertificateSubscribe are what a certificate grants.
	CertificatePublish, CertificateSubscribe []model.Pattern
	// Public is what needs no credential.
	Public Rules
	// Log receives what happens to keys; nil discards it.
	Log *slog.Logger
}

// Authorizer decides on credentials. Its methods may be called from any goroutine.
type Authorizer struct {
	cfg     Config
	log     *slog.Logger
	sources []*source
	ca      *authority

	public atomic.Pointer[Rules]
	keys   atomic.Pointer[KeySet]
	asked  chan struct{} // closed when the URL was asked once
	now    chan struct{} // asks Run to look at once
	client *http.Client  // of the URL
}

// New returns an authorizer that has read every local file once. A file that
// cannot be used is reported to the log and waited for: see [Authorizer.Run].
func New(cfg Config) (*Authorizer, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Authorizer{cfg: cfg, log: cfg.Log, asked: make(chan struct{}), now: make(chan struct{}, 1), client: newClient()}
	a.SetPublic(cfg.Public)
	a.keys.Store(&KeySet{})
	if err := a.findSources(); err != nil {
		return nil, err
	}
	if len(a.sources) == 0 && !cfg.Public.any() && (cfg.ClientCA == "" || len(cfg.CertificatePublish)+len(cfg.CertificateSubscribe) == 0) {
		return nil, errors.New("nobody could get in: give a key, a public rule, or an authority of client certificates with what they grant")
	}
	a.loadLocal()
	return a, nil
}

// any reports whether the rules let somebody do something.
func (r Rules) any() bool { return len(r.Publish)+len(r.Subscribe) > 0 }

// SetPublic replaces the rules for whoever brings no credential, for sessions
// that begin from now on.
func (a *Authorizer) SetPublic(r Rules) { a.public.Store(&r) }

// Reload makes [Authorizer.Run] read files and URL now.
func (a *Authorizer) Reload() {
	select {
	case a.now <- struct{}{}:
	default: // asked already, and not looked yet
	}
}

// Request is a peer that asks to be let in.
type Request struct {
	// Path is what it asks for, with its query, as in "/room/1?jwt=x".
	Path string
	// Certificates are the client's that TLS has verified, the leaf first.
	Certificates []*x509.Certificate
}

// Authorize judges a request. It waits only where the keys' URL was not asked yet,
// for that or ctx. Every error is an [*Error].
func (a *Authorizer) Authorize(ctx context.Context, r Request) (session.Grant, error) {
	path, token, err := parseRequest(r.Path)
	if err != nil {
		return session.Grant{}, &Error{Err: err}
	}
	switch {
	case token != "" && len(r.Certificates) > 0:
		return session.Grant{}, unauthorized("a token and a client certificate at once: present one of them")
	case token != "":
		return a.byToken(ctx, path, token)
	case len(r.Certificates) > 0:
		return a.byCertificate(path, r.Certificates[0])
	}
	public := a.public.Load()
	grant, ok := narrow(path, public.Publish, public.Subscribe)
	if !ok {
		return session.Grant{}, unauthorized("no credential, and nothing at or below path %q is public: connect with a token (?jwt=)", path)
	}
	grant.Tier = TierPublic
	return grant, nil
}

// parseRequest takes the path and the token out of a request; no error has the query.
func parseRequest(request string) (path model.Path, token string, err error) {
	before, query, _ := strings.Cut(request, "?")
	decoded, err := url.PathUnescape(before)
	if err != nil {
		return "", "", fmt.Errorf("request path: %q is no percent-encoding", clip(before))
	}
	if path, err = model.ParsePath(decoded); err != nil {
		return "", "", fmt.Errorf("request path: %w", err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", errors.New("the query of the request cannot be read")
	}
	tokens := values["jwt"]
	for i, t := range tokens {
		if t == "" {
			return "", "", errors.New("the token (?jwt=) is empty: leave it out to connect without one")
		}
		if t != tokens[max(0, i-1)] {
			return "", "", errors.New("two different tokens (?jwt=) at once: present one of them")
		}
		token = t
	}
	return path, token, nil
}

func (a *Authorizer) byToken(ctx context.Context, path model.Path, token string) (session.Grant, error) {
	if len(a.sources) == 0 {
		return session.Grant{}, unauthorized("token: this relay has no keys to check tokens with: set auth.key, auth.keyDirectory or auth.jwks, or connect without a token")
	}
	select {
	case <-a.asked:
	case <-ctx.Done():
		return session.Grant{}, &Error{Err: context.Cause(ctx)}
	}
	claims, err := a.keys.Load().Verify(token, time.Now())
	if err != nil {
		return session.Grant{}, &Error{Err: err}
	}
	if !path.HasPrefix(claims.Root) && !claims.Root.HasPrefix(path) {
		return session.Grant{}, forbidden("token: its root %q does not fit the requested path %q: connect to a path at, above or below its root", claims.Root, path)
	}
	grant, ok := narrow(path, claims.Publish, claims.Subscribe)
	if !ok {
		return session.Grant{}, forbidden("token: it grants nothing at or below the requested path %q", path)
	}
	grant.Tier, grant.Expires = TierToken, claims.Expires
	return grant, nil
}

func (a *Authorizer) byCertificate(path model.Path, leaf *x509.Certificate) (session.Grant, error) {
	if !time.Now().Before(leaf.NotAfter) {
		return session.Grant{}, unauthorized("client certificate: it expired at %s: renew it", stamp(leaf.NotAfter))
	}
	grant, ok := narrow(path, a.cfg.CertificatePublish, a.cfg.CertificateSubscribe)
	if !ok {
		return session.Grant{}, forbidden("client certificate: auth.mtlsPublish and auth.mtlsSubscribe grant nothing at or below the requested path %q", path)
	}
	grant.Tier, grant.Expires = TierCertificate, leaf.NotAfter
	return grant, nil
}

// narrow is the grant of a session whose names lie below path; ok is false when
// nothing is left of it. Losing one role is fine.
func narrow(path model.Path, publish, subscribe []model.Pattern) (g session.Grant, ok bool) {
	g = session.Grant{Root: path, Publish: reaching(publish, path), Subscribe: reaching(subscribe, path)}
	return g, len(g.Publish)+len(g.Subscribe) > 0
}

func reaching(patterns []model.Pattern, path model.Path) []model.Pattern {
	var out []model.Pattern
	for _, p := range patterns {
		if p.Reaches(path) {
			out = append(out, p)
		}
	}
	return out
}
