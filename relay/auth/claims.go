package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/moqrelay/operator/relay/model"
)

// Claims are what a verified token says.
type Claims struct {
	// Root is the base path of the grants.
	Root model.Path
	// Publish and Subscribe are the grants, absolute.
	Publish, Subscribe []model.Pattern
	// Expires is when the token ends, NotBefore when it begins; zero: not said.
	Expires, NotBefore time.Time
}

// ignoredClaims are those of RFC 7519 that change nothing here.
var ignoredClaims = []string{"iss", "sub", "jti"}

// timeClaims are numbers of seconds since 1970.
var timeClaims = []string{"exp", "nbf", "iat"}

// parseClaims reads a token's payload. A claim that is not known is refused: a
// misspelt "root" would grant more than it was meant to.
func parseClaims(payload []byte) (*Claims, error) {
	members, err := object(payload)
	if err != nil {
		return nil, fmt.Errorf("the payload %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(ruleNames, name) && !slices.Contains(ignoredClaims, name) && !slices.Contains(timeClaims, name) {
			return nil, fmt.Errorf("claim %q is not known; known: root, put, get, publish, subscribe, exp, nbf, iat, iss, sub, jti", clip(name))
		}
	}
	r, err := readRules(members)
	if err != nil {
		return nil, fmt.Errorf("claim %w", err)
	}
	c := &Claims{Root: r.root, Publish: r.publish, Subscribe: r.subscribe}
	var issued time.Time
	for name, to := range map[string]*time.Time{"exp": &c.Expires, "nbf": &c.NotBefore, "iat": &issued} {
		if *to, err = timeOf(members, name); err != nil {
			return nil, err
		}
	}
	if len(c.Publish)+len(c.Subscribe) == 0 {
		return nil, errors.New(`it grants nothing: give it "put" or "get", such as "get": "" to watch everything below its root`)
	}
	return c, nil
}

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// timeOf is a claim that must be a number of seconds; fractions are rounded down.
func timeOf(members map[string]json.RawMessage, name string) (time.Time, error) {
	raw, ok := members[name]
	if !ok {
		return time.Time{}, nil
	}
	var seconds *float64
	if err := json.Unmarshal(raw, &seconds); err != nil || seconds == nil {
		return time.Time{}, fmt.Errorf("claim %q is not a number of seconds since 1970", name)
	}
	if *seconds < 0 || *seconds > lastSecond {
		return time.Time{}, fmt.Errorf("claim %q is out of range: want seconds since 1970", name)
	}
	return time.Unix(int64(math.Floor(*seconds)), 0), nil
}

// valid judges the times; there is no allowance for clocks that differ.
func (c *Claims) valid(now time.Time) error {
	if !c.Expires.IsZero() && !now.Before(c.Expires) {
		return fmt.Errorf("claim \"exp\": it expired at %s: get a fresh token", stamp(c.Expires))
	}
	if !c.NotBefore.IsZero() && now.Before(c.NotBefore) {
		return fmt.Errorf("claim \"nbf\": it is not valid before %s; the clock here says %s", stamp(c.NotBefore), stamp(now))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
