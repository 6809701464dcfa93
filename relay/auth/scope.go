package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/moqrelay/operator/relay/model"
)

// scope bounds what the tokens of a key may grant.
type scope struct{ rules }

// rules are the grants of a token or the bounds of a key: absolute patterns.
type rules struct {
	root               model.Path
	publish, subscribe []model.Pattern
}

func (k *Key) readScope() error {
	raw, ok := k.members["scope"]
	if !ok {
		return nil
	}
	members, err := object(raw)
	if err != nil {
		return fmt.Errorf("\"scope\" %w", err)
	}
	for name := range members {
		if !slices.Contains(ruleNames, name) {
			return fmt.Errorf("\"scope\" has an unknown member %q", clip(name))
		}
	}
	r, err := readRules(members)
	if err != nil {
		return fmt.Errorf("\"scope\": %w", err)
	}
	k.scope = &scope{r}
	return nil
}

// admit reports whether every grant lies inside the scope; it trims nothing.
func (s *scope) admit(r rules) error {
	for _, role := range []struct {
		name           string
		granted, bound []model.Pattern
	}{{"publish", r.publish, s.publish}, {"subscribe", r.subscribe, s.subscribe}} {
		for _, p := range role.granted {
			if !slices.ContainsFunc(role.bound, func(b model.Pattern) bool { return b.Covers(p) }) {
				return fmt.Errorf("it lets its holder %s %q, which is outside the scope of the key", role.name, p)
			}
		}
	}
	return nil
}

// ruleNames are the members that readRules reads.
var ruleNames = []string{"root", "put", "get", "publish", "subscribe"}

// readRules reads put and get, prefixes that stand for everything below them, or
// publish and subscribe, patterns; all lie below root.
func readRules(members map[string]json.RawMessage) (r rules, err error) {
	root, err := textOf(members, "root")
	if err != nil {
		return r, err
	}
	if r.root, err = model.ParsePath(root); err != nil {
		return r, fmt.Errorf("\"root\": %w", err)
	}
	if old, new := hasAny(members, "put", "get"), hasAny(members, "publish", "subscribe"); old && new {
		return r, errors.New(`has "put" or "get" together with "publish" or "subscribe": use one pair`)
	}
	for _, c := range []struct {
		name   string
		prefix bool
		to     *[]model.Pattern
	}{{"put", true, &r.publish}, {"get", true, &r.subscribe}, {"publish", false, &r.publish}, {"subscribe", false, &r.subscribe}} {
		patterns, err := r.patterns(members, c.name, c.prefix)
		if err != nil {
			return r, err
		}
		*c.to = append(*c.to, patterns...)
	}
	return r, nil
}

func hasAny(members map[string]json.RawMessage, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := members[name]; return ok })
}

// maxPatterns bounds one role of a token: each announcement is held against all.
const maxPatterns = 128

// patterns reads one claim. A prefix may be a lone string.
func (r *rules) patterns(members map[string]json.RawMessage, name string, prefix bool) (out []model.Pattern, err error) {
	items, err := listOf(members, name, prefix)
	if err != nil {
		return nil, err
	}
	if len(items) > maxPatterns {
		return nil, fmt.Errorf("%q has %d items, more than %d", name, len(items), maxPatterns)
	}
	for _, item := range items {
		var p model.Pattern
		if prefix {
			var path model.Path
			path, err = model.ParsePath(item)
			p = model.Subtree(path)
		} else {
			p, err = model.ParsePattern(item)
		}
		if err == nil {
			p, err = p.Under(r.root)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		out = append(out, p)
	}
	return out, nil
}
