package load

import (
	"encoding/hex"
	"errors"
	"strings"
)

// An Epoch names what a publisher sends: publishers of the same epoch send the
// same groups (moq-lite-07-wip). It is a command line flag: a UUID, such as
// 0193f3a0-1b2c-7d3e-8f40-000000000001. Relays take a higher one for newer. The
// zero Epoch is none.
type Epoch [16]byte

// Set reads the text form.
func (e *Epoch) Set(text string) error {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(e) || Epoch(b) == (Epoch{}) {
		return errors.New("a UUID that is not zero is wanted, such as 0193f3a0-1b2c-7d3e-8f40-000000000001")
	}
	*e = Epoch(b)
	return nil
}

// String is the text form; empty for none.
func (e *Epoch) String() string {
	if *e == (Epoch{}) {
		return ""
	}
	h := hex.EncodeToString(e[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// Type names the kind of value in help texts.
func (*Epoch) Type() string { return "uuid" }
