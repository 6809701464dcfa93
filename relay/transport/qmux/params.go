package qmux

import (
	"github.com/moqrelay/operator/relay/wire"
)

// Ids of transport parameters: RFC 9000, section 18.2, and QMux's own.
const (
	paramIdleTimeout          = 0x01
	paramMaxData              = 0x04
	paramStreamDataBidiLocal  = 0x05
	paramStreamDataBidiRemote = 0x06
	paramStreamDataUni        = 0x07
	paramStreamsBidi          = 0x08
	paramStreamsUni           = 0x09
	paramDatagramSize         = 0x20
	paramResetStreamAt        = 0x1d
	paramRecordSize           = 0x0571c59429cd0845
	// paramProtocols negotiates the application in-band; it belongs to carriers without tokens.
	paramProtocols = 0x3d4f9c2a8b1e6075
)

// params is what one side advertises in QX_TRANSPORT_PARAMETERS.
type params struct {
	idleTimeout          uint64 // milliseconds; 0: none
	maxData              uint64 // bytes
	streamDataBidiLocal  uint64 // bytes, for streams that the advertiser opens
	streamDataBidiRemote uint64 // bytes, for streams that the receiver of these parameters opens
	streamDataUni        uint64 // bytes
	streamsBidi          uint64 // streams that the receiver of these parameters may open
	streamsUni           uint64
	datagramSize         uint64 // bytes of a whole DATAGRAM frame; 0: no datagrams
	recordSize           uint64 // bytes
	resetStreamAt        bool
}

// integers lists the parameters that have a number, in the order in which they are sent.
func (p *params) integers() []paramField {
	return []paramField{
		{paramIdleTimeout, &p.idleTimeout},
		{paramMaxData, &p.maxData},
		{paramStreamDataBidiLocal, &p.streamDataBidiLocal},
		{paramStreamDataBidiRemote, &p.streamDataBidiRemote},
		{paramStreamDataUni, &p.streamDataUni},
		{paramStreamsBidi, &p.streamsBidi},
		{paramStreamsUni, &p.streamsUni},
		{paramDatagramSize, &p.datagramSize},
		{paramRecordSize, &p.recordSize},
	}
}

type paramField struct {
	id    uint64
	value *uint64
}

// appendParams appends the whole QX_TRANSPORT_PARAMETERS frame. Numbers that
// are 0 are left out. max_record_size goes out on draft 00 too, as from released
// peers; it means nothing there.
func appendParams(b []byte, p params) []byte {
	var list []byte
	for _, f := range p.integers() {
		if *f.value != 0 {
			list = appendFrame(list, f.id, uint64(wire.VarintLen(*f.value)), *f.value)
		}
	}
	if p.resetStreamAt {
		list = appendFrame(list, paramResetStreamAt, 0)
	}
	b = appendFrame(b, frameParameters, uint64(len(list)))
	return append(b, list...)
}

// parseParams reads the list inside a QX_TRANSPORT_PARAMETERS frame. Errors are
// TRANSPORT_PARAMETER_ERROR.
func parseParams(list []byte, d Draft) (params, error) {
	p := params{}
	known := p.integers()
	seen := make(map[uint64]bool, len(known))
	for r := wire.NewReader(list); r.Len() > 0; {
		id := r.Varint("id")
		value := r.Bytes("value", r.Len())
		if r.Err() != nil {
			return params{}, violation(codeTransportParameter, "transport parameters: %v", r.Err())
		}
		if err := p.set(known, id, value, seen, d); err != nil {
			return params{}, err
		}
	}
	return p.check(d, seen)
}

// set takes one parameter over. Unknown ones are skipped and may repeat.
func (p *params) set(known []paramField, id uint64, value []byte, seen map[uint64]bool, d Draft) error {
	switch {
	case prohibitedParam(id):
		return violation(codeTransportParameter, "transport parameter %#x is prohibited", id)
	case id == paramProtocols:
		return violation(codeTransportParameter, "application protocols were negotiated already")
	case id == paramResetStreamAt && d.hasResetStreamAt():
		if len(value) != 0 {
			return violation(codeTransportParameter, "reset_stream_at has a value")
		}
		p.resetStreamAt = true
		return once(seen, id)
	}
	for _, f := range known {
		if f.id != id {
			continue
		}
		v, n := wire.ParseVarint(value)
		if n == 0 || n != len(value) {
			return violation(codeTransportParameter, "transport parameter %#x is not one integer", id)
		}
		*f.value = v
		return once(seen, id)
	}
	return nil
}

func once(seen map[uint64]bool, id uint64) error {
	if seen[id] {
		return violation(codeTransportParameter, "transport parameter %#x comes twice", id)
	}
	seen[id] = true
	return nil
}

// check applies bounds and defaults to what was read.
func (p *params) check(d Draft, seen map[uint64]bool) (params, error) {
	if d == Draft00 || !seen[paramRecordSize] {
		p.recordSize = defaultRecordSize
	}
	switch {
	case p.recordSize < defaultRecordSize:
		return params{}, violation(codeTransportParameter, "max_record_size %d is below %d", p.recordSize, defaultRecordSize)
	case p.streamsBidi > maxStreamCount || p.streamsUni > maxStreamCount:
		return params{}, violation(codeTransportParameter, "a stream count is above 2^60")
	}
	return *p, nil
}

// prohibitedParam says whether id is a parameter of QUIC that speaks of packets,
// connection ids or paths, of which there are none here.
func prohibitedParam(id uint64) bool {
	switch id {
	case 0x00, 0x02, 0x03, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10:
		return true
	}
	return false
}
