package lite

import (
	"fmt"
	"slices"

	"github.com/moqrelay/operator/relay/wire"
)

// Limits of SETUP.
const (
	// MaxSetup is the longest body of SETUP, in bytes.
	MaxSetup = 65535
	// MaxSetupParameters is the most parameters, unknown ones included.
	MaxSetupParameters = 64
)

// The parameters of SETUP.
const (
	paramProbe = 0x1
	paramPath  = 0x2
	paramRole  = 0x3
	paramCost  = 0x4
	paramHop   = 0x5
)

// A ProbeLevel is what an endpoint can do on a Probe stream.
type ProbeLevel uint8

// The levels. A higher number on the wire reads as ProbePad.
const (
	ProbeNone   ProbeLevel = 0 // no reports
	ProbeReport ProbeLevel = 1 // reports what it measures
	ProbePad    ProbeLevel = 2 // can also pad up to a target
)

// A Role narrows what a client means to do. It is a hint, never a permission.
type Role uint8

// The roles. Another number on the wire reads as RoleBoth.
const (
	RoleBoth       Role = 0
	RolePublisher  Role = 1
	RoleSubscriber Role = 2
)

// Setup is SETUP (05 and later): what one side says about itself, once, alone
// on its Setup stream. The zero Setup is legal and writes no parameter.
type Setup struct {
	// Probe is what the sender can do on Probe streams.
	Probe ProbeLevel
	// Path is the request path with its query, which may hold a credential: do
	// not log it. Only clients send it, and only where the transport has no
	// request URI. Empty equals absent. It is not brought to normal form; at most
	// what fits [MaxSetup].
	Path string
	// Role is sent by clients only.
	Role Role
	// Cost is the price that the receiver adds to every announcement of the
	// sender; absent means 1, 0 is free. Since 06.
	Cost Optional
	// Hop is the sender's own hop id; 0 equals absent.
	Hop uint64
}

// Append appends the message to b. Parameters with their default are left out.
func (m *Setup) Append(b []byte, v Version) ([]byte, error) {
	e := encode("SETUP", b, v, v.HasSetup())
	sendsCost := m.Cost.Set && v.HasLinkCost()
	count := 0
	for _, sent := range []bool{m.Probe != 0, m.Path != "", m.Role != 0, sendsCost, m.Hop != 0} {
		if sent {
			count++
		}
	}
	e.Varint("parameter count", uint64(count))
	e.parameter("probe", paramProbe, m.Probe != 0, uint64(m.Probe))
	if m.Path != "" {
		e.Varint("path id", paramPath)
		e.String("path", m.Path, MaxSetup)
	}
	e.parameter("role", paramRole, m.Role != 0, uint64(m.Role))
	e.parameter("cost", paramCost, sendsCost, m.Cost.Value)
	e.parameter("hop", paramHop, m.Hop != 0, m.Hop)
	if n := e.Mark() - e.body; n > MaxSetup {
		e.Fail("body", fmt.Errorf("%w: %d bytes, limit %d", wire.ErrTooLong, n, MaxSetup))
	}
	return e.close()
}

// parameter writes a parameter whose value is a varint, if it is to be sent.
func (e *encoder) parameter(field string, id uint64, sent bool, value uint64) {
	if !sent {
		return
	}
	e.Varint(field, id)
	mark := e.Mark()
	e.Varint(field, value)
	e.Prefix(mark)
}

// DecodeSetup reads the body of SETUP. Unknown parameters are skipped; one that
// comes twice is [ErrViolation].
func DecodeSetup(body []byte, v Version) (*Setup, error) {
	d := decode("SETUP", body, v, v.HasSetup())
	m := &Setup{}
	count := d.Varint("parameter count")
	if count > MaxSetupParameters {
		d.Fail("parameter count", fmt.Errorf("%w: %d, limit %d", wire.ErrMalformed, count, MaxSetupParameters))
		count = 0
	}
	var seen []uint64
	for range count {
		id := d.Varint("parameter id")
		if slices.Contains(seen, id) && d.Err() == nil {
			d.refuse("parameter id", fmt.Errorf("%w: parameter %#x twice", ErrViolation, id))
		}
		seen = append(seen, id)
		m.decodeParameter(&d, id)
	}
	return m, d.close()
}

// decodeParameter reads the value of parameter id.
func (m *Setup) decodeParameter(d *decoder, id uint64) {
	switch id {
	case paramProbe:
		m.Probe = ProbeLevel(min(d.parameter("probe"), uint64(ProbePad)))
	case paramPath:
		m.Path = d.String("path", MaxSetup)
	case paramRole:
		if role := d.parameter("role"); role <= uint64(RoleSubscriber) {
			m.Role = Role(role)
		}
	case paramCost:
		if d.v.HasLinkCost() {
			m.Cost = Some(d.parameter("cost"))
			return
		}
		d.Bytes("cost", MaxSetup)
	case paramHop:
		m.Hop = d.parameter("hop")
	default:
		d.Bytes("unknown parameter", MaxSetup)
	}
}

// parameter reads a parameter whose value is a varint that fills it exactly.
func (d *decoder) parameter(field string) uint64 {
	r := wire.NewReader(d.Bytes(field, MaxSetup))
	r.Form = d.Form
	if d.Err() != nil {
		return 0
	}
	value := r.Varint("value")
	if err := r.Close(); err != nil {
		d.Fail(field, err)
	}
	return value
}
