package model

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Limits of a [Path].
const (
	MaxPathBytes    = 1024
	MaxPathSegments = 32
)

// Path names a broadcast, or everything at and below it: segments separated by
// one slash, without a leading or trailing one. The empty path is the root and a
// prefix of every path. Only [ParsePath] and the methods make one.
type Path string

// ParsePath brings s to the normal form: slashes are collapsed and trimmed. It
// refuses more than [MaxPathBytes] bytes or [MaxPathSegments] segments, the
// segments "." and "..", NUL bytes and text that is not UTF-8.
func ParsePath(s string) (Path, error) {
	if len(s) > MaxPathBytes {
		return "", fmt.Errorf("path of %d bytes is longer than %d", len(s), MaxPathBytes)
	}
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("path %q is not UTF-8 text without NUL", s)
	}
	segments := strings.FieldsFunc(s, func(r rune) bool { return r == '/' })
	if len(segments) > MaxPathSegments {
		return "", fmt.Errorf("path of %d segments has more than %d", len(segments), MaxPathSegments)
	}
	for _, segment := range segments {
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("path %q has a segment %q", s, segment)
		}
	}
	return Path(strings.Join(segments, "/")), nil
}

// HasPrefix reports whether p lies at or below prefix, by whole segments:
// "foo" is no prefix of "foobar".
func (p Path) HasPrefix(prefix Path) bool {
	if prefix == "" || p == prefix {
		return true
	}
	return len(p) > len(prefix) && p[len(prefix)] == '/' && p[:len(prefix)] == prefix
}

// Strip returns what follows prefix in p: "" when they are equal, and p itself
// when prefix is not a prefix of it.
func (p Path) Strip(prefix Path) Path {
	switch {
	case prefix == "" || !p.HasPrefix(prefix):
		return p
	case p == prefix:
		return ""
	}
	return p[len(prefix)+1:]
}

// Join returns p followed by q. It fails where the result is over the limits of [ParsePath].
func (p Path) Join(q Path) (Path, error) {
	if p == "" {
		return q, nil
	}
	if q == "" {
		return p, nil
	}
	joined := p + "/" + q
	if len(joined) > MaxPathBytes || strings.Count(string(joined), "/") >= MaxPathSegments {
		return "", errors.New("joined path is over the limits of a path")
	}
	return joined, nil
}

// segments yields the segments from the first to the last; none for the root.
func (p Path) segments() iter.Seq[string] {
	if p == "" {
		return func(func(string) bool) {}
	}
	return strings.SplitSeq(string(p), "/")
}

// length is the number of segments.
func (p Path) length() int {
	if p == "" {
		return 0
	}
	return 1 + strings.Count(string(p), "/")
}
