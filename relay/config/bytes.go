package config

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Bytes is a number of bytes. Its text form is an integer or a quantity as in
// Kubernetes, with a binary suffix (Ki, Mi, Gi, Ti) or a decimal one (k, M, G,
// T); a trailing B is accepted, so that "8MB" and "4MiB" are read too.
type Bytes int64

// The binary multiples.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// units are the suffixes. Of two that say the same the first is printed.
var units = []struct {
	suffix string
	size   uint64
}{
	{"Ti", 1 << 40},
	{"Gi", 1 << 30},
	{"Mi", 1 << 20},
	{"Ki", 1 << 10},
	{"T", 1e12},
	{"G", 1e9},
	{"M", 1e6},
	{"k", 1e3},
	{"K", 1e3},
}

// ParseBytes reads the text form. Fractions, signs, spaces and values beyond
// 2^63-1 are refused.
func ParseBytes(s string) (Bytes, error) {
	number, size := splitUnit(s)
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return 0, fmt.Errorf("%s is not a number of bytes such as 4194304, 4Mi or 8MB", quote(s))
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", quote(s))
	}
	high, low := bits.Mul64(n, size)
	if high != 0 || low > math.MaxInt64 {
		return 0, fmt.Errorf("%s is too large", quote(s))
	}
	return Bytes(low), nil
}

// splitUnit returns the digits and the size of the unit behind them.
func splitUnit(s string) (number string, size uint64) {
	rest := s
	if before, ok := strings.CutSuffix(s, "B"); ok {
		rest = before
	}
	for _, u := range units {
		if number, ok := strings.CutSuffix(rest, u.suffix); ok {
			return number, u.size
		}
	}
	return rest, 1
}

// String returns the shortest exact text form, such as "4Mi" or "8M".
func (b Bytes) String() string {
	text := strconv.FormatInt(int64(b), 10)
	for _, u := range units {
		if b <= 0 || uint64(b)%u.size != 0 {
			continue
		}
		if short := strconv.FormatUint(uint64(b)/u.size, 10) + u.suffix; len(short) < len(text) {
			text = short
		}
	}
	return text
}

// Size is a number of bytes, or a percentage of the memory that the process may
// use. At most one of the fields is set; the zero value means that nothing was said.
type Size struct {
	// Bytes is an absolute size; 0 when Percent is set.
	Bytes Bytes
	// Percent is 1 to 100; 0 when Bytes is set.
	Percent int
}

// ParseSize reads the text form of [Bytes], or a whole percentage such as "50%".
func ParseSize(s string) (Size, error) {
	number, ok := strings.CutSuffix(s, "%")
	if !ok {
		b, err := ParseBytes(s)
		if err != nil {
			return Size{}, fmt.Errorf("%s is neither a number of bytes such as 512Mi nor a percentage such as 50%%", quote(s))
		}
		return Size{Bytes: b}, nil
	}
	n, err := strconv.ParseUint(number, 10, 8)
	if err != nil || n < 1 || n > 100 {
		return Size{}, fmt.Errorf("%s is not a whole percentage from 1%% to 100%%", quote(s))
	}
	return Size{Percent: int(n)}, nil
}

// String returns the text form; empty for the zero value.
func (s Size) String() string {
	switch {
	case s.Percent != 0:
		return strconv.Itoa(s.Percent) + "%"
	case s.Bytes != 0:
		return s.Bytes.String()
	default:
		return ""
	}
}

// Of returns the size in bytes where limit is the memory that the process may use.
func (s Size) Of(limit int64) int64 {
	if s.Percent == 0 {
		return int64(s.Bytes)
	}
	return limit/100*int64(s.Percent) + limit%100*int64(s.Percent)/100
}

// quote shows what a person typed, cut to a length that fits a line.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
