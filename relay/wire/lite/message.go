package lite

import (
	"errors"
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// Limits of the protocol that every peer applies.
const (
	// MaxHops is the most entries of a hop list, the sender included.
	MaxHops = 32
	// MaxTrackName is the longest track name, in bytes (our limit, as [MaxPath]).
	MaxTrackName = 1024
)

// ErrRefused says that a message was read to its end but names a path or a hop
// list that is not carried. The decoded struct is returned too, so that the n-th
// announcement can still be counted; a refused path is empty in it.
var ErrRefused = errors.New("refused")

// ErrViolation says that the peer broke a rule whose breach ends the session
// with [SessionProtocolViolation].
var ErrViolation = errors.New("protocol violation")

// ErrVersion says that a message or a value does not exist in the version.
var ErrVersion = errors.New("not in this version")

// An Optional is a number that may be absent. On the wire it is one more than
// its value, and 0 when absent. The zero Optional is absent.
type Optional struct {
	// Value is the number; 0 when not Set. At most 2^62-2.
	Value uint64
	// Set is true when there is a number.
	Set bool
}

// Some returns an Optional that is set to v.
func Some(v uint64) Optional { return Optional{Value: v, Set: true} }

// A decoder reads the body of one message of one version.
type decoder struct {
	wire.Reader
	name   string // of the message, for errors
	v      Version
	reject error // first rule broken by a message that can be read
}

// decode starts on the body of the message called name, which v has if ok.
func decode(name string, body []byte, v Version, ok bool) decoder {
	d := decoder{Reader: *wire.NewReader(body), name: name, v: v}
	d.Form = v.Form()
	if !ok {
		d.Fail(v.String(), ErrVersion)
	}
	return d
}

// close returns what is wrong with the message: first that it cannot be read,
// then a rule it breaks.
func (d *decoder) close() error {
	err := d.Close()
	if err == nil {
		err = d.reject
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", d.name, err)
}

// refuse records that the message breaks a rule though it can be read.
func (d *decoder) refuse(field string, err error) {
	if d.reject == nil {
		d.reject = fmt.Errorf("%s: %w", field, err)
	}
}

// path reads a path and brings it to normal form; "" when it is refused.
func (d *decoder) path(field string) string {
	p, err := NormalizePath(d.String(field, wire.MaxControlMessage))
	if err != nil {
		d.refuse(field, err)
	}
	return p
}

// track reads a track name; "" when it is refused.
func (d *decoder) track(field string) string {
	s := d.String(field, wire.MaxControlMessage)
	if len(s) > MaxTrackName {
		d.refuse(field, fmt.Errorf("%w: %d bytes, limit %d", ErrRefused, len(s), MaxTrackName))
		return ""
	}
	return s
}

// optional reads a number that may be absent.
func (d *decoder) optional(field string) Optional {
	n := d.Varint(field)
	if n == 0 {
		return Optional{}
	}
	return Some(n - 1)
}

// An Epoch names one instance of a publisher, a UUID of version 7. The zero Epoch
// is none.
type Epoch [16]byte

// epoch reads an epoch where the version has one.
func (d *decoder) epoch() (e Epoch) {
	if !d.v.HasEpochs() {
		return Epoch{}
	}
	switch b := d.Bytes("epoch", len(e)); len(b) {
	case 0:
	case len(e):
		copy(e[:], b)
	default:
		d.Fail("epoch", fmt.Errorf("%w: %d bytes, want 0 or %d", wire.ErrMalformed, len(b), len(e)))
	}
	return e
}

// An encoder writes one message of one version: type, length, body.
type encoder struct {
	wire.Writer
	name string
	v    Version
	body int // where the body starts
}

// encode starts the message called name, which v has if ok.
func encode(name string, b []byte, v Version, ok bool) encoder {
	e := encoder{Writer: *wire.NewWriter(b), name: name, v: v}
	e.Form = v.Form()
	if !ok {
		e.Fail(v.String(), ErrVersion)
	}
	e.body = e.Mark()
	return e
}

// typ writes the type in front of the length.
func (e *encoder) typ(t uint64) {
	e.Varint("type", t)
	e.body = e.Mark()
}

// close puts the length in front of the body.
func (e *encoder) close() ([]byte, error) {
	e.Prefix(e.body)
	return e.closeBare()
}

// closeBare ends a message that has no length.
func (e *encoder) closeBare() ([]byte, error) {
	b, err := e.Close()
	if err != nil {
		return b, fmt.Errorf("%s: %w", e.name, err)
	}
	return b, nil
}

// path writes a path in normal form.
func (e *encoder) path(field, p string) {
	p, err := NormalizePath(p)
	if err != nil {
		e.Fail(field, err)
		return
	}
	e.String(field, p, MaxPath)
}

// optional writes a number that may be absent.
func (e *encoder) optional(field string, o Optional) {
	switch {
	case !o.Set:
		e.Byte(0)
	case o.Value >= wire.MaxVarint:
		e.Fail(field, fmt.Errorf("%w: %d is over 2^62-2", wire.ErrTooLong, o.Value))
	default:
		e.Varint(field, o.Value+1)
	}
}

// epoch writes an epoch where the version has one.
func (e *encoder) epoch(epoch Epoch) {
	switch {
	case !e.v.HasEpochs():
	case epoch == Epoch{}:
		e.Byte(0)
	default:
		e.Bytes("epoch", epoch[:], len(epoch))
	}
}

// flag writes a bool as one raw byte.
func (e *encoder) flag(on bool) {
	if on {
		e.Byte(1)
		return
	}
	e.Byte(0)
}
