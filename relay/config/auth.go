package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// AuthMode names who may publish and watch.
type AuthMode string

// The modes of Auth.
const (
	// AuthNone lets everyone publish and watch everything.
	AuthNone AuthMode = "None"
	// AuthJWT lets in who brings a token or a client certificate, and everyone where
	// a public rule says so.
	AuthJWT AuthMode = "JWT"
)

// Auth says who may publish and watch. All but Mode needs mode JWT, which in turn
// needs something that lets somebody in.
type Auth struct {
	// Mode has no default: an open relay must be asked for.
	Mode AuthMode
	// PublicPrefixes are paths; everyone may publish and watch at and below them.
	// "/" is everything. At most 64. Live.
	PublicPrefixes []string
	// PublicPublish and PublicSubscribe are patterns of paths that everyone may
	// publish, and watch: "*" is one segment, "**" any number. At most 64 each. Live.
	PublicPublish, PublicSubscribe []string
	// Key is a file with one JWK, KeyDirectory a directory of files KID.jwk, JWKS a
	// file or https URL with a JWK Set. They add up; "" is none. What is in them is
	// followed while the relay runs.
	Key, KeyDirectory, JWKS string
	// ClientCA is a PEM file with the authorities of client certificates; "" asks
	// clients for none. Its content is followed.
	ClientCA string
	// MTLSPublish and MTLSSubscribe are patterns of what a client certificate may
	// publish and watch. Either needs ClientCA. At most 64 each.
	MTLSPublish, MTLSSubscribe []string
}

// LiveAuth is the part of [Auth] that reloads.
type LiveAuth struct {
	// PublicPrefixes, PublicPublish and PublicSubscribe are as in [Auth], for
	// sessions that begin from now on.
	PublicPrefixes, PublicPublish, PublicSubscribe []string
}

func (a Auth) live() LiveAuth {
	return LiveAuth{a.PublicPrefixes, a.PublicPublish, a.PublicSubscribe}
}

// authKeys are the keys of this section.
var authKeys = []Key{
	{"auth.mode", ClassRestart, "who may publish and watch; required: None is everyone, JWT is tokens, client certificates and public rules", func(c *Config) value { return oneOf(&c.Auth.Mode, AuthNone, AuthJWT) }},
	{"auth.publicPrefixes", ClassLive, "paths at and below which everyone may publish and watch; / is everything", func(c *Config) value { return paths(&c.Auth.PublicPrefixes) }},
	{"auth.publicPublish", ClassLive, "what everyone may publish", func(c *Config) value { return patterns(&c.Auth.PublicPublish) }},
	{"auth.publicSubscribe", ClassLive, "what everyone may watch", func(c *Config) value { return patterns(&c.Auth.PublicSubscribe) }},
	{"auth.key", ClassRestart, "file with one verification key, a JWK; its content reloads", func(c *Config) value { return &line{&c.Auth.Key, "a file path", isText} }},
	{"auth.keyDirectory", ClassRestart, "directory of verification keys, KID.jwk each; its content reloads", func(c *Config) value { return &line{&c.Auth.KeyDirectory, "a directory path", isText} }},
	{"auth.jwks", ClassRestart, "JWK Set with verification keys; a file's content reloads, a URL is asked each minute", func(c *Config) value { return &line{&c.Auth.JWKS, "a file path or an https URL", isPlace} }},
	{"auth.clientCA", ClassRestart, "PEM file with the authorities of client certificates; its content reloads", func(c *Config) value { return &line{&c.Auth.ClientCA, "a file path", isText} }},
	{"auth.mtlsPublish", ClassRestart, "what a client certificate may publish; needs auth.clientCA", func(c *Config) value { return patterns(&c.Auth.MTLSPublish) }},
	{"auth.mtlsSubscribe", ClassRestart, "what a client certificate may watch; needs auth.clientCA", func(c *Config) value { return patterns(&c.Auth.MTLSSubscribe) }},
}

// authRules are the rules between the keys of this section.
var authRules = append(needMode(), []rule{
	{[]string{"auth.mode", "auth.mtlsPublish", "auth.mtlsSubscribe"}, func(c Config) string {
		if c.Auth.Mode != AuthJWT || c.Auth.admits() {
			return ""
		}
		return "JWT lets nobody in: set auth.key, auth.keyDirectory or auth.jwks, a public rule such as auth.publicPrefixes, or auth.clientCA"
	}},
	{[]string{"auth.clientCA", "auth.mode"}, func(c Config) string {
		if c.Auth.ClientCA == "" || len(c.Auth.MTLSPublish)+len(c.Auth.MTLSSubscribe) > 0 {
			return ""
		}
		return "needs auth.mtlsPublish or auth.mtlsSubscribe: without either a client certificate may do nothing"
	}},
	{[]string{"auth.mtlsPublish", "auth.clientCA"}, func(c Config) string { return needsCA(c.Auth.MTLSPublish, c) }},
	{[]string{"auth.mtlsSubscribe", "auth.clientCA"}, func(c Config) string { return needsCA(c.Auth.MTLSSubscribe, c) }},
}...)

// admits reports whether mode JWT would let anybody in.
func (a Auth) admits() bool {
	return a.Key != "" || a.KeyDirectory != "" || a.JWKS != "" || a.ClientCA != "" ||
		len(a.PublicPrefixes)+len(a.PublicPublish)+len(a.PublicSubscribe) > 0
}

func needsCA(patterns []string, c Config) string {
	if len(patterns) == 0 || c.Auth.ClientCA != "" {
		return ""
	}
	return "needs auth.clientCA: without it no client certificate is asked for"
}

// needMode has a rule for each key that mode None would leave without effect.
func needMode() (out []rule) {
	for _, k := range authKeys {
		if k.Name == "auth.mode" {
			continue
		}
		out = append(out, rule{[]string{k.Name, "auth.mode"}, func(c Config) string {
			if c.Auth.Mode != AuthNone || k.Value(c) == "" {
				return ""
			}
			return "has no effect when auth.mode is None: set auth.mode to JWT, or leave this out"
		}})
	}
	return out
}

// line is one line of text that may be left unset.
type line struct {
	to   *string
	what string
	item func(string) error
}

func (v *line) Set(text string) error { *v.to = text; return nil }
func (v *line) String() string        { return *v.to }

func (v *line) check() error {
	if *v.to == "" {
		return nil
	}
	return v.item(*v.to)
}
func (v *line) accepts() string { return v.what }

// isPlace accepts a file's path or an https URL.
func isPlace(item string) error {
	if !strings.Contains(item, "://") {
		return isText(item)
	}
	u, err := url.Parse(item)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%s is not an https URL", quote(item))
	}
	return nil
}

func paths(to *[]string) value {
	return &list{to: to, most: 64, what: `paths such as "demo", or "/"`, item: isPath}
}

func patterns(to *[]string) value {
	return &list{to: to, most: 64, what: `patterns such as "demo/*/camera" or "demo/**"`, item: isPattern}
}

// isPath accepts the path of a broadcast.
func isPath(item string) error {
	switch {
	case item == "":
		return errors.New(`"" is not a path; write "/" for everything`)
	case len(item) > 1024, !utf8.ValidString(item), strings.ContainsAny(item, ",\x00\n"):
		return fmt.Errorf("%s is not a path of at most 1024 bytes without commas", quote(item))
	}
	names := segments(item)
	if len(names) > 32 {
		return fmt.Errorf("%s has more than 32 segments", quote(item))
	}
	if slices.Contains(names, ".") || slices.Contains(names, "..") {
		return fmt.Errorf("%s has . or .. as a segment", quote(item))
	}
	return nil
}

func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// isPattern accepts a path whose segments may be wildcards. It is the same set as
// package model reads.
func isPattern(item string) error {
	if item == "" {
		return errors.New(`"" is not a pattern; write "**" for everything`)
	}
	if err := isPath(item); err != nil {
		return err
	}
	gaps := 0
	for _, name := range segments(item) {
		switch {
		case name == "**":
			gaps++
		case name != "*" && strings.Contains(name, "*"):
			return fmt.Errorf("%s has a * beside other letters; accepted: * and ** alone in a segment", quote(item))
		}
	}
	if gaps > 1 {
		return fmt.Errorf("%s has more than one **", quote(item))
	}
	return nil
}
