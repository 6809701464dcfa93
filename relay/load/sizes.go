package load

import (
	"fmt"
	"math"
	"strings"

	"github.com/moqrelay/operator/relay/config"
)

// Sizes is the range that frame sizes are taken from, in bytes: 1 to [MaxFrame].
// It is a command line flag: "1200" or "1..300Ki".
type Sizes struct {
	Min, Max int
}

// At is the size of frame n of count. Both ends occur; those between are spread
// evenly over the orders of magnitude, and mixed.
func (s Sizes) At(n, count int) int {
	if count < 2 || s.Min == s.Max {
		return s.Max
	}
	step := 73 // prime, so that every place occurs once
	if count%step == 0 {
		step = 71
	}
	place := float64(n*step%count) / float64(count-1)
	return int(math.Round(float64(s.Min) * math.Pow(float64(s.Max)/float64(s.Min), place)))
}

// Set reads the text form.
func (s *Sizes) Set(text string) error {
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	least, err := config.ParseBytes(low)
	if err != nil {
		return err
	}
	most, err := config.ParseBytes(high)
	if err != nil {
		return err
	}
	if least < 1 || most > MaxFrame || least > most {
		return fmt.Errorf("a size or LOW..HIGH from 1 to %v bytes is wanted", config.Bytes(MaxFrame))
	}
	s.Min, s.Max = int(least), int(most)
	return nil
}

// String is the text form.
func (s *Sizes) String() string {
	if s.Min == s.Max {
		return config.Bytes(s.Min).String()
	}
	return fmt.Sprintf("%v..%v", config.Bytes(s.Min), config.Bytes(s.Max))
}

// Type names the kind of value in help texts.
func (*Sizes) Type() string { return "bytes" }

// Bytes is a number of bytes as a command line flag: "8192" or "8Ki".
type Bytes int

// Set reads the text form.
func (b *Bytes) Set(text string) error {
	n, err := config.ParseBytes(text)
	if err != nil {
		return err
	}
	if n < 0 || n > MaxFrame {
		return fmt.Errorf("0 to %v bytes are possible", config.Bytes(MaxFrame))
	}
	*b = Bytes(n)
	return nil
}

// String is the text form.
func (b *Bytes) String() string { return config.Bytes(*b).String() }

// Type names the kind of value in help texts.
func (*Bytes) Type() string { return "bytes" }
