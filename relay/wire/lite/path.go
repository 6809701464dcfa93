package lite

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a path; longer ones are refused.
const (
	// MaxPath is the longest path in bytes, as written, extra slashes included.
	MaxPath = 1024
	// MaxSegments is the most segments of a path.
	MaxSegments = 32
)

// NormalizePath returns the normal form of a path: no slash at either end, no
// empty segment, "" for the root. Over [MaxPath] bytes, over [MaxSegments], a
// segment "." or "..", a NUL byte and bytes that are not UTF-8 are [ErrRefused],
// with "" for the path. A path in normal form is returned without a copy.
func NormalizePath(p string) (string, error) {
	switch {
	case len(p) > MaxPath:
		return "", fmt.Errorf("%w: path of %d bytes, limit %d", ErrRefused, len(p), MaxPath)
	case !utf8.ValidString(p):
		return "", fmt.Errorf("%w: path is not UTF-8", ErrRefused)
	case strings.IndexByte(p, 0) >= 0:
		return "", fmt.Errorf("%w: path with a NUL byte", ErrRefused)
	}
	p = strings.Trim(p, "/")
	if strings.Contains(p, "//") {
		p = strings.Join(strings.FieldsFunc(p, func(c rune) bool { return c == '/' }), "/")
	}
	if err := checkSegments(p); err != nil {
		return "", err
	}
	return p, nil
}

// checkSegments looks at each segment of a path in normal form.
func checkSegments(p string) error {
	n := 0
	for segment := range strings.SplitSeq(p, "/") {
		n++
		if segment == "." || segment == ".." {
			return fmt.Errorf("%w: path with a segment %q", ErrRefused, segment)
		}
	}
	if n > MaxSegments {
		return fmt.Errorf("%w: path of %d segments, limit %d", ErrRefused, n, MaxSegments)
	}
	return nil
}
