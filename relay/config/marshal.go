package config

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Marshal returns c as one file that [Parse] reads back. A key that is not set
// is left out.
func (c Config) Marshal() []byte {
	return c.marshal(func(Key) bool { return true })
}

// MarshalFiles returns c as two files: the keys that need a restart, and those
// that a running relay takes from a changed file.
func (c Config) MarshalFiles() (restart, live []byte) {
	restart = c.marshal(func(k Key) bool { return k.Class == ClassRestart })
	live = c.marshal(func(k Key) bool { return k.Class == ClassLive })
	return restart, live
}

// marshal writes the chosen keys. Keys of one section stand together in the
// table, so that a section opens once.
func (c Config) marshal(chosen func(Key) bool) []byte {
	var b bytes.Buffer
	var open []string
	for _, k := range keys {
		text, set := yamlText(k.at(&c), k.Default())
		if !set || !chosen(k) {
			continue
		}
		path := strings.Split(k.Name, ".")
		sections := path[:len(path)-1]
		same := commonPrefix(open, sections)
		for i := same; i < len(sections); i++ {
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), sections[i])
		}
		fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", len(sections)), path[len(path)-1], text)
		open = sections
	}
	return b.Bytes()
}

// commonPrefix counts the leading elements that are equal.
func commonPrefix(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// yamlText returns the value as YAML on one line; set is false when leaving it
// out means the same. Text from people is quoted in ASCII: every escape of Go's
// is one of YAML's too.
func yamlText(v value, fallback string) (text string, set bool) {
	switch v := v.(type) {
	case *address:
		return strconv.QuoteToASCII(*v.to), true
	case *line:
		return strconv.QuoteToASCII(*v.to), *v.to != ""
	case *list:
		items := make([]string, len(*v.to))
		for i, item := range *v.to {
			items[i] = strconv.QuoteToASCII(item)
		}
		return "[" + strings.Join(items, ", ") + "]", len(items) > 0 || fallback != ""
	case *upstreams:
		return v.yaml(), len(*v.to) > 0
	default:
		return v.String(), v.String() != ""
	}
}
