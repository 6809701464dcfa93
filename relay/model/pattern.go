package model

import (
	"errors"
	"fmt"
	"strings"
)

// Pattern is a set of paths. Its text form is a path whose segments may also be
// "*", for one segment of any name, and at most once "**", for any number of
// segments, none included: "room/*/camera", "room/**". Without either it is
// exactly that path. The zero value is the root alone. Only [ParsePattern],
// [Subtree] and the methods make one.
type Pattern struct {
	before []segment // as far as "**"
	gap    bool      // there is a "**"
	after  []segment // behind it
}

// segment is one step of a pattern.
type segment struct {
	name string
	any  bool // "*": every name
}

func (s segment) matches(name string) bool { return s.any || s.name == name }

// covers reports whether s matches everything that other matches.
func (s segment) covers(other segment) bool { return s.any || !other.any && s.name == other.name }

// ParsePattern reads the text form. What [ParsePath] refuses is refused, and a
// "*" beside other letters of a segment.
func ParsePattern(s string) (Pattern, error) {
	path, err := ParsePath(s)
	if err != nil {
		return Pattern{}, err
	}
	var p Pattern
	for name := range path.segments() {
		switch {
		case name == "**" && p.gap:
			return Pattern{}, fmt.Errorf("pattern %q has more than one \"**\"", s)
		case name == "**":
			p.gap = true
		case name != "*" && strings.Contains(name, "*"):
			return Pattern{}, fmt.Errorf("pattern %q has a segment %q: \"*\" and \"**\" stand alone in a segment", s, name)
		case p.gap:
			p.after = append(p.after, segment{name, name == "*"})
		default:
			p.before = append(p.before, segment{name, name == "*"})
		}
	}
	return p, nil
}

// Subtree is the pattern of everything at and below p, whose names are taken
// literally.
func Subtree(p Path) Pattern { return Pattern{before: literals(p), gap: true} }

func literals(p Path) []segment {
	var out []segment
	for name := range p.segments() {
		out = append(out, segment{name: name})
	}
	return out
}

// String returns the text form.
func (p Pattern) String() string {
	var b strings.Builder
	for _, s := range p.before {
		b.WriteString("/" + s.String())
	}
	if p.gap {
		b.WriteString("/**")
	}
	for _, s := range p.after {
		b.WriteString("/" + s.String())
	}
	return strings.TrimPrefix(b.String(), "/")
}

// String returns the name, or "*".
func (s segment) String() string {
	if s.any {
		return "*"
	}
	return s.name
}

// Matches reports whether the path is one of the pattern's.
func (p Pattern) Matches(path Path) bool {
	n := path.length()
	if n < p.least() || !p.gap && n > p.least() {
		return false
	}
	i := 0
	for name := range path.segments() {
		if i < len(p.before) && !p.before[i].matches(name) {
			return false
		}
		if j := i - (n - len(p.after)); j >= 0 && !p.after[j].matches(name) {
			return false
		}
		i++
	}
	return true
}

// least is how many segments the shortest path of the pattern has.
func (p Pattern) least() int { return len(p.before) + len(p.after) }

// Under returns the pattern whose paths are those of p below root, whose names
// are taken literally. It fails where that is over the limits of a [Path].
func (p Pattern) Under(root Path) (Pattern, error) {
	under := Pattern{before: append(literals(root), p.before...), gap: p.gap, after: p.after}
	steps := under.least()
	if under.gap {
		steps++
	}
	if steps > MaxPathSegments || len(under.String()) > MaxPathBytes {
		return Pattern{}, errors.New("joined pattern is over the limits of a path")
	}
	return under, nil
}

// Reaches reports whether the pattern has a path at or below prefix.
func (p Pattern) Reaches(prefix Path) bool {
	i := 0
	for name := range prefix.segments() {
		if i == len(p.before) {
			return p.gap
		}
		if !p.before[i].matches(name) {
			return false
		}
		i++
	}
	return true
}

// Covers reports whether every path of other is one of p.
func (p Pattern) Covers(other Pattern) bool {
	if !other.gap {
		return p.coversSteps(other.before)
	}
	if !p.gap {
		return false
	}
	// A gap longer than all that p demands adds nothing: from there on p's two
	// ends lie apart, each at the same place of other.
	for width := range p.least() + 1 {
		steps := append([]segment{}, other.before...)
		for range width {
			steps = append(steps, segment{any: true})
		}
		if !p.coversSteps(append(steps, other.after...)) {
			return false
		}
	}
	return true
}

// coversSteps is Covers for a pattern without a gap.
func (p Pattern) coversSteps(steps []segment) bool {
	n := len(steps)
	if n < p.least() || !p.gap && n > p.least() {
		return false
	}
	for i, s := range p.before {
		if !s.covers(steps[i]) {
			return false
		}
	}
	for i, s := range p.after {
		if !s.covers(steps[n-len(p.after)+i]) {
			return false
		}
	}
	return true
}
