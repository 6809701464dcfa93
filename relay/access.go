package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/moqrelay/operator/relay/auth"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
)

// newAuthorizer is nil where everyone may do everything.
func newAuthorizer(cfg config.Config, log *slog.Logger) (*auth.Authorizer, error) {
	a := cfg.Auth
	if a.Mode != config.AuthJWT {
		return nil, nil //nolint:nilnil // there is nothing to decide
	}
	rules, err := publicRules(cfg.Live().Auth)
	if err != nil {
		return nil, err
	}
	publish, err := parsePatterns("auth.mtlsPublish", a.MTLSPublish)
	if err != nil {
		return nil, err
	}
	subscribe, err := parsePatterns("auth.mtlsSubscribe", a.MTLSSubscribe)
	if err != nil {
		return nil, err
	}
	return auth.New(auth.Config{
		Key: a.Key, KeyDirectory: a.KeyDirectory, JWKS: a.JWKS, ClientCA: a.ClientCA,
		CertificatePublish: publish, CertificateSubscribe: subscribe, Public: rules, Log: log,
	})
}

// publicRules reads what needs no credential.
func publicRules(a config.LiveAuth) (r auth.Rules, err error) {
	var both []model.Pattern
	for _, prefix := range a.PublicPrefixes {
		path, err := model.ParsePath(prefix)
		if err != nil {
			return r, fmt.Errorf("auth.publicPrefixes: %w", err)
		}
		both = append(both, model.Subtree(path))
	}
	publish, err := parsePatterns("auth.publicPublish", a.PublicPublish)
	if err != nil {
		return r, err
	}
	subscribe, err := parsePatterns("auth.publicSubscribe", a.PublicSubscribe)
	if err != nil {
		return r, err
	}
	return auth.Rules{Publish: slices.Concat(both, publish), Subscribe: slices.Concat(both, subscribe)}, nil
}

func parsePatterns(key string, texts []string) (out []model.Pattern, err error) {
	for _, text := range texts {
		p, err := model.ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// runAuth keeps the keys fresh.
func (s *Server) runAuth(ctx context.Context) error {
	if s.auth == nil {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return s.auth.Run(ctx)
}

// useAuth puts changed public rules in force.
func (s *Server) useAuth(a config.LiveAuth) {
	if s.auth == nil {
		return
	}
	rules, err := publicRules(a)
	if err != nil { // config has checked the same
		s.log.Error("changed public rules are not in force", "error", err)
		return
	}
	s.auth.SetPublic(rules)
}

// clientTLS asks clients for a certificate where those may let them in.
func (s *Server) clientTLS(cfg *tls.Config) *tls.Config {
	if s.auth == nil {
		return cfg
	}
	return s.auth.TLS(cfg)
}

// authorizer judges a session when its path is known; nil lets everyone in.
func (s *Server) authorizer(info transport.Info) func(context.Context, string) (session.Grant, error) {
	if s.auth == nil {
		return nil
	}
	return func(ctx context.Context, path string) (session.Grant, error) {
		grant, err := s.auth.Authorize(ctx, auth.Request{Path: path, Certificates: info.Certificates})
		if err != nil {
			s.denied(info.Kind, info.Remote, err)
		}
		return grant, err
	}
}

// deny judges a request before it becomes a session: it returns the HTTP status
// of the refusal and its text, or 0.
func (s *Server) deny(ctx context.Context, info transport.Info) (status int, text string) {
	var root model.Path
	if s.auth == nil {
		escaped, _, _ := strings.Cut(info.Path, "?")
		root, _ = requestedPath(escaped) // the session refuses what is none
	} else {
		grant, err := s.auth.Authorize(ctx, auth.Request{Path: info.Path, Certificates: info.Certificates})
		if err != nil {
			return s.denied(info.Kind, info.Remote, err), err.Error()
		}
		root = grant.Root
	}
	if s.tenants.full(tenantOf(root), s.live.Load().Limits.SessionsPerTenant) {
		s.sessions.refuse(refusedOverload)
		return http.StatusServiceUnavailable, errTenantFull.Error()
	}
	return 0, ""
}

// grantOf is what a plain HTTP request may do, by the token in its query or its
// certificate; names are absolute. Where that is nothing it has answered.
func (s *Server) grantOf(w http.ResponseWriter, r *http.Request) (session.Grant, bool) {
	if s.auth == nil {
		return session.Everything(""), true
	}
	request := auth.Request{Path: "/?" + r.URL.RawQuery, Certificates: clientCertificates(r.TLS)}
	grant, err := s.auth.Authorize(r.Context(), request)
	if err != nil {
		answer(w, s.denied("http", remoteAddr(r), err), err.Error())
		return grant, false
	}
	return grant, true
}

// clientCertificates are those that TLS has verified; state is nil without TLS.
func clientCertificates(state *tls.ConnectionState) []*x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates
}

// denied counts and reports a refusal, whose HTTP status it returns. No part of
// the request is in it: its query has the token.
func (s *Server) denied(kind transport.Kind, remote net.Addr, err error) (status int) {
	status = auth.Status(err)
	reason := refusedUnauthorized
	if status == http.StatusForbidden {
		reason = refusedForbidden
	}
	s.sessions.refuse(reason)
	s.log.Info("session refused", "remote", remote.String(), "transport", string(kind), "reason", reason, "error", err)
	return status
}
