package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errRequired is the fault of a key that has no default and was not set.
var errRequired = errors.New("is required")

// A value is one key's place inside a Config: it reads, checks and prints it.
type value interface {
	// Set reads the text form and stores it. The error says what is wrong with
	// the text, without the range.
	Set(text string) error
	// String returns the text form, empty when the value is not set.
	String() string
	// check says what is wrong with the stored value by itself; nil when it may stay.
	check() error
	// accepts says which values are accepted.
	accepts() string
}

// number is a whole number within bounds.
type number struct {
	to          *int
	least, most int
}

func (v *number) Set(text string) (err error) {
	*v.to, err = parseInt(text)
	return err
}
func (v *number) String() string  { return strconv.Itoa(*v.to) }
func (v *number) check() error    { return within(*v.to, v.least, v.most) }
func (v *number) accepts() string { return interval(v.least, v.most) }

// optional is a whole number within bounds that may be left unset.
type optional struct {
	to          **int
	least, most int
}

func (v *optional) Set(text string) error {
	n, err := parseInt(text)
	*v.to = &n
	return err
}

func (v *optional) String() string {
	if *v.to == nil {
		return ""
	}
	return strconv.Itoa(**v.to)
}

func (v *optional) check() error {
	if *v.to == nil {
		return nil
	}
	return within(**v.to, v.least, v.most)
}
func (v *optional) accepts() string { return interval(v.least, v.most) }

// bytesIn is a number of bytes within bounds.
type bytesIn struct {
	to          *Bytes
	least, most Bytes
}

func (v *bytesIn) Set(text string) (err error) {
	*v.to, err = ParseBytes(text)
	return err
}
func (v *bytesIn) String() string  { return v.to.String() }
func (v *bytesIn) check() error    { return within(*v.to, v.least, v.most) }
func (v *bytesIn) accepts() string { return interval(v.least, v.most) }

// sizeIn is a number of bytes within bounds, or a percentage.
type sizeIn struct {
	to          *Size
	least, most Bytes
}

func (v *sizeIn) Set(text string) (err error) {
	*v.to, err = ParseSize(text)
	if err == nil && *v.to == (Size{}) {
		err = fmt.Errorf("%s leaves nothing", quote(text))
	}
	return err
}
func (v *sizeIn) String() string { return v.to.String() }

func (v *sizeIn) check() error {
	s := *v.to
	switch {
	case s.Percent != 0 && s.Bytes != 0:
		return fmt.Errorf("%d%% and %v are both set", s.Percent, s.Bytes)
	case s.Percent < 0 || s.Percent > 100:
		return fmt.Errorf("%d%% is out of range", s.Percent)
	case s.Bytes != 0:
		return within(s.Bytes, v.least, v.most)
	}
	return nil
}
func (v *sizeIn) accepts() string { return interval(v.least, v.most) + " or 1%..100%" }

// choice is one of a few words.
type choice[T ~string] struct {
	to    *T
	words []T
	unset bool // may be left unset
}

// oneOf is the value at to, one of words.
func oneOf[T ~string](to *T, words ...T) value { return &choice[T]{to: to, words: words} }

func (v *choice[T]) Set(text string) error {
	*v.to = T(text)
	if text == "" {
		return fmt.Errorf(`"" is not a choice`)
	}
	return nil
}
func (v *choice[T]) String() string { return string(*v.to) }

func (v *choice[T]) check() error {
	switch {
	case slices.Contains(v.words, *v.to), v.unset && *v.to == "":
		return nil
	case *v.to == "":
		return errRequired
	default:
		return fmt.Errorf("%s is not a choice", quote(string(*v.to)))
	}
}

func (v *choice[T]) accepts() string {
	words := make([]string, len(v.words))
	for i, w := range v.words {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}

// address is HOST:PORT.
type address struct {
	to       *string
	optional bool
}

func (v *address) Set(text string) error { *v.to = text; return nil }
func (v *address) String() string        { return *v.to }

func (v *address) check() error {
	if *v.to == "" && v.optional {
		return nil
	}
	host, port, err := net.SplitHostPort(*v.to)
	if err != nil {
		return fmt.Errorf("%s is not HOST:PORT", quote(*v.to))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%s has no port number from 0 to 65535", quote(*v.to))
	}
	if strings.ContainsAny(host, " /,\t\n") {
		return fmt.Errorf("%s has no host that can be listened on", quote(*v.to))
	}
	return nil
}

func (v *address) accepts() string {
	if v.optional {
		return `HOST:PORT, or "" for none`
	}
	return "HOST:PORT"
}

// list is a list of distinct words.
type list struct {
	to   *[]string
	most int
	what string
	item func(item string) error
}

// Set reads items separated by commas; an empty text is the empty list.
func (v *list) Set(text string) error {
	*v.to = []string{}
	if text != "" {
		*v.to = strings.Split(text, ",")
	}
	return nil
}
func (v *list) String() string { return strings.Join(*v.to, ",") }

func (v *list) check() error {
	if len(*v.to) > v.most {
		return fmt.Errorf("%d items are too many", len(*v.to))
	}
	for i, item := range *v.to {
		if err := v.item(item); err != nil {
			return err
		}
		if slices.Contains((*v.to)[:i], item) {
			return fmt.Errorf("%s is there twice", quote(item))
		}
	}
	return nil
}
func (v *list) accepts() string { return fmt.Sprintf("at most %d of %s", v.most, v.what) }

// isText accepts what can be a path and survives the comma form.
func isText(item string) error {
	if item == "" || strings.ContainsAny(item, ",\x00\n") || !utf8.ValidString(item) {
		return fmt.Errorf("%s is not a path without commas", quote(item))
	}
	return nil
}

// isOneOf accepts the words.
func isOneOf(words ...string) func(string) error {
	return func(item string) error {
		if !slices.Contains(words, item) {
			return fmt.Errorf("%s is not known", quote(item))
		}
		return nil
	}
}

// isSpoken accepts the protocol versions of this build.
func isSpoken(item string) error {
	if !slices.Contains(Released(), item) && !slices.Contains(OnRequest(), item) {
		return fmt.Errorf("%s is not spoken by this build", quote(item))
	}
	return nil
}

// spoken lists the protocol versions of this build.
func spoken() string { return strings.Join(append(Released(), OnRequest()...), ", ") }

// isOrigin accepts "*" and what a browser sends as Origin (RFC 6454, section 6.2).
func isOrigin(item string) error {
	if item == "*" {
		return nil
	}
	u, err := url.Parse(item)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != item || strings.ContainsAny(item, ", *") {
		return fmt.Errorf("%s is not an origin", quote(item))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s is not a web origin", quote(item))
	}
	return nil
}

// parseInt reads a whole number in decimal digits.
func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s is not a whole number that fits", quote(text))
	}
	return int(n), nil
}

// within says that n is out of bounds.
func within[T int | Bytes](n, least, most T) error {
	if n < least || n > most {
		return fmt.Errorf("%v is out of range", n)
	}
	return nil
}

// interval prints bounds.
func interval[T int | Bytes](least, most T) string {
	return fmt.Sprintf("%v..%v", least, most)
}
