package model

import (
	"strings"
	"testing"
)

func mustPattern(t *testing.T, s string) Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return p
}

func TestAPatternMatchesWholeSegments(t *testing.T) {
	for _, row := range []struct {
		pattern string
		yes, no []string
	}{
		{"foo", []string{"foo"}, []string{"", "foobar", "foo/bar", "fo"}},
		{"", []string{""}, []string{"a"}},
		{"*", []string{"a", "b"}, []string{"", "a/b"}},
		{"a/*/c", []string{"a/b/c"}, []string{"a/c", "a/b/b/c", "a/b/d"}},
		{"**", []string{"", "a", "a/b/c"}, nil},
		{"foo/**", []string{"foo", "foo/a", "foo/a/b"}, []string{"foobar", "", "fo"}},
		{"**/cam", []string{"cam", "a/cam", "a/b/cam"}, []string{"cam/a", "acam", ""}},
		{"a/**/z", []string{"a/z", "a/b/z", "a/b/c/z"}, []string{"a", "z", "a/b", "b/z"}},
		{"a/*/**/z", []string{"a/b/z", "a/b/c/z"}, []string{"a/z"}},
		{"/a//b/", []string{"a/b"}, []string{"a"}},
	} {
		p := mustPattern(t, row.pattern)
		for _, path := range row.yes {
			if !p.Matches(Path(path)) {
				t.Errorf("%q does not match %q", row.pattern, path)
			}
		}
		for _, path := range row.no {
			if p.Matches(Path(path)) {
				t.Errorf("%q matches %q", row.pattern, path)
			}
		}
	}
}

func TestWhatIsNoPatternIsRefused(t *testing.T) {
	for _, s := range []string{"a*", "*a", "***", "a/b*c", "**/a/**", "../a", ".", "a\x00", "\xff", strings.Repeat("a/", 33), strings.Repeat("x", 1025)} {
		if p, err := ParsePattern(s); err == nil {
			t.Errorf("%.20q is read as %q", s, p)
		}
	}
}

func TestASubtreeTakesItsNamesLiterally(t *testing.T) {
	p := Subtree("a/*")
	if p.Matches("a/b") || !p.Matches("a/*") || !p.Matches("a/*/b") {
		t.Errorf("the subtree of a/* matches a/b: %v, a/*: %v, a/*/b: %v", p.Matches("a/b"), p.Matches("a/*"), p.Matches("a/*/b"))
	}
}

func TestAPatternUnderARootMatchesBelowItAlone(t *testing.T) {
	p, err := mustPattern(t, "*/cam").Under("room/1")
	if err != nil || p.String() != "room/1/*/cam" {
		t.Fatalf("*/cam under room/1 is %q, %v", p, err)
	}
	if !p.Matches("room/1/a/cam") || p.Matches("a/cam") || p.Matches("room/2/a/cam") {
		t.Errorf("%q matches the wrong paths", p)
	}
	if _, err := Subtree(Path(strings.Repeat("a/", 30) + "a")).Under("x"); err == nil {
		t.Error("33 segments are accepted")
	}
	if _, err := Subtree(Path(strings.Repeat("a/", 29) + "a")).Under("x"); err != nil {
		t.Errorf("32 segments: %v", err)
	}
}

func TestAPatternReachesWhereItHasPathsBelow(t *testing.T) {
	for _, row := range []struct {
		pattern, prefix string
		want            bool
	}{
		{"room/1/**", "", true},
		{"room/1/**", "room", true},
		{"room/1/**", "room/1/a", true},
		{"room/1/**", "room/2", false},
		{"room/1/**", "roo", false},
		{"room/1", "room/1/a", false},
		{"room/*/cam", "room/7", true},
		{"room/*/cam", "room/7/mic", false},
		{"**/cam", "a/b/c", true},
		{"", "", true},
		{"", "a", false},
	} {
		if got := mustPattern(t, row.pattern).Reaches(Path(row.prefix)); got != row.want {
			t.Errorf("%q reaches %q: %v, want %v", row.pattern, row.prefix, got, row.want)
		}
	}
}

func TestAPatternCoversWhatLiesInsideIt(t *testing.T) {
	for _, row := range []struct {
		outer, inner string
		want         bool
	}{
		{"**", "a/b", true},
		{"**", "**/x", true},
		{"a/**", "a", true},
		{"a/**", "a/*/c", true},
		{"a/**", "ab", false},
		{"a/**", "**", false},
		{"a/*", "a/b", true},
		{"a/b", "a/*", false},
		{"a/*", "a/**", false},
		{"a/*/**", "a/**", false},
		{"a/*/**", "a/**/b", true}, // even with nothing between, b is the segment
		{"a/**/b", "a/*/**", false},
		{"**/b", "a/**/b", true},
		{"a/**/b", "a/b", true},
		{"*/**/*", "a/**/b", true},
		{"*/*/**", "a/**", false},
	} {
		if got := mustPattern(t, row.outer).Covers(mustPattern(t, row.inner)); got != row.want {
			t.Errorf("%q covers %q: %v, want %v", row.outer, row.inner, got, row.want)
		}
	}
}

// Covers and Reaches are held against Matches, on every short path of a small alphabet.
func TestCoversAndReachesSayWhatMatchesSays(t *testing.T) {
	patterns := smallPatterns()
	paths := smallPaths(5)
	for _, outer := range patterns {
		for _, inner := range patterns {
			inside := true
			for _, path := range paths {
				inside = inside && (!inner.Matches(path) || outer.Matches(path))
			}
			if got := outer.Covers(inner); got != inside {
				t.Errorf("%q covers %q: %v, by its paths %v", outer, inner, got, inside)
			}
		}
		for _, prefix := range smallPaths(2) {
			reached := false
			for _, path := range paths {
				reached = reached || path.HasPrefix(prefix) && outer.Matches(path)
			}
			if got := outer.Reaches(prefix); got != reached {
				t.Errorf("%q reaches %q: %v, by its paths %v", outer, prefix, got, reached)
			}
		}
	}
}

// smallPatterns are all of at most three segments of a, *, **; every one has
// paths of at most three segments.
func smallPatterns() []Pattern {
	texts := []string{""}
	all := texts
	for range 3 {
		var longer []string
		for _, text := range texts {
			for _, name := range []string{"a", "*", "**"} {
				longer = append(longer, strings.TrimPrefix(text+"/"+name, "/"))
			}
		}
		all, texts = append(all, longer...), longer
	}
	var out []Pattern
	for _, text := range all {
		if p, err := ParsePattern(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// smallPaths are all of at most n segments of a and b.
func smallPaths(n int) []Path {
	level := []Path{""}
	all := level
	for range n {
		var longer []Path
		for _, p := range level {
			for _, name := range []Path{"a", "b"} {
				q, _ := p.Join(name)
				longer = append(longer, q)
			}
		}
		all, level = append(all, longer...), longer
	}
	return all
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"", "a", "a/*/b", "a/**", "**/b", "a/**/b", "*/**/*", "a*"} {
		f.Add(seed, "a/x/b", seed)
	}
	f.Fuzz(func(t *testing.T, text, name, other string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		again, err := ParsePattern(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q prints as %q, which is read as %q, %v", text, p, again, err)
		}
		if !p.Covers(p) {
			t.Fatalf("%q does not cover itself", p)
		}
		path, err := ParsePath(name)
		if err != nil {
			return
		}
		if p.Matches(path) && (!p.Reaches(path) || !p.Covers(Pattern{before: literals(path)})) {
			t.Fatalf("%q matches %q and does not reach or cover it", p, path)
		}
		if q, err := ParsePattern(other); err == nil && q.Covers(p) && p.Matches(path) && !q.Matches(path) {
			t.Fatalf("%q covers %q and does not match %q", q, p, path)
		}
	})
}
