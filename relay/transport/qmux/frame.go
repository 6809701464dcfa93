package qmux

import (
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
)

// Frame types: RFC 9000, section 19, and QMux's own.
const (
	frameResetStream        = 0x04
	frameStopSending        = 0x05
	frameStream             = 0x08 // to 0x0f, with the three bits below
	frameMaxData            = 0x10
	frameMaxStreamData      = 0x11
	frameMaxStreamsBidi     = 0x12
	frameMaxStreamsUni      = 0x13
	frameDataBlocked        = 0x14
	frameStreamDataBlocked  = 0x15
	frameStreamsBlockedBidi = 0x16
	frameStreamsBlockedUni  = 0x17
	frameTransportClose     = 0x1c
	frameApplicationClose   = 0x1d
	frameResetStreamAt      = 0x24
	frameDatagram           = 0x30
	frameDatagramLength     = 0x31
	framePingRequest        = 0x348c67529ef8c7bd
	framePingResponse       = 0x348c67529ef8c7be
	frameParameters         = 0x3f5153300d0a0d0a

	streamFin    = 0x01
	streamLength = 0x02
	streamOffset = 0x04
)

// A frame is any of them; which fields count depends on the type.
type frame struct {
	typ       uint64 // the type; all STREAM frames are frameStream, both datagrams frameDatagram
	id        uint64 // stream
	hasOffset bool   // STREAM
	offset    uint64 // STREAM
	fin       bool   // STREAM
	data      []byte // payload, reason or list of parameters: a part of the record
	code      uint64 // application or transport error code
	value     uint64 // limit, final size, sequence number or offending frame type
	reliable  uint64 // RESET_STREAM_AT: bytes to be delivered before the reset
}

// parseFrame takes the first frame off a record, which must not be empty, and
// returns how many bytes it has. PADDING before it counts to it; a record that
// ends in PADDING gives a frame of type 0. Errors are FRAME_ENCODING_ERROR.
func parseFrame(b []byte, d Draft) (f frame, n int, err error) {
	for n < len(b) && b[n] == 0 {
		n++
	}
	if n == len(b) || d.oneFramePerRecord() && n > 0 {
		return frame{}, n, nil
	}
	r := wire.NewReader(b[n:])
	f.typ = r.Varint("frame type")
	if r.Err() == nil {
		err = f.fields(r, d)
	}
	if err == nil && r.Err() != nil {
		err = violation(codeFrameEncoding, "frame type %#x: %v", f.typ, r.Err())
	}
	if err != nil {
		return frame{}, 0, err
	}
	return f, len(b) - r.Len(), nil
}

// fields reads what follows the type. An error that the reader keeps is not returned.
func (f *frame) fields(r *wire.Reader, d Draft) error {
	switch f.typ {
	case frameResetStream, frameResetStreamAt:
		return f.reset(r, d)
	case frameStopSending:
		f.id, f.code = r.Varint("stream id"), r.Varint("error code")
	case 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f:
		return f.stream(r)
	case frameMaxData, frameDataBlocked:
		f.value = r.Varint("limit")
	case frameMaxStreamData, frameStreamDataBlocked:
		f.id, f.value = r.Varint("stream id"), r.Varint("limit")
	case frameMaxStreamsBidi, frameMaxStreamsUni, frameStreamsBlockedBidi, frameStreamsBlockedUni:
		return f.streamCount(r)
	case frameTransportClose:
		f.code, f.value = r.Varint("error code"), r.Varint("frame type")
		f.data = r.Bytes("reason", r.Len())
	case frameApplicationClose:
		f.code = r.Varint("error code")
		f.data = r.Bytes("reason", r.Len())
	case frameDatagram:
		f.data = r.Rest()
	case frameDatagramLength:
		f.typ = frameDatagram
		f.data = r.Bytes("data", r.Len())
	case framePingRequest, framePingResponse:
		if d.hasPing() || r.Len() > 0 { // by draft 00 it has no number
			f.value = r.Varint("sequence number")
		}
	case frameParameters:
		f.data = r.Bytes("parameters", r.Len())
	default:
		// Also the frames of QUIC that QMux prohibits: PING, ACK, CRYPTO and so on.
		return violation(codeFrameEncoding, "unknown or prohibited frame type %#x", f.typ)
	}
	return nil
}

func (f *frame) stream(r *wire.Reader) error {
	bits := f.typ
	f.typ = frameStream
	f.fin = bits&streamFin != 0
	f.id = r.Varint("stream id")
	if f.hasOffset = bits&streamOffset != 0; f.hasOffset {
		f.offset = r.Varint("offset")
	}
	if bits&streamLength != 0 {
		f.data = r.Bytes("data", r.Len())
	} else {
		f.data = r.Rest()
	}
	if f.offset+uint64(len(f.data)) > wire.MaxVarint {
		return violation(codeFrameEncoding, "stream %d ends beyond 2^62-1", f.id)
	}
	return nil
}

func (f *frame) reset(r *wire.Reader, d Draft) error {
	if f.typ == frameResetStreamAt && !d.hasResetStreamAt() {
		return violation(codeFrameEncoding, "RESET_STREAM_AT is unknown to %v", d)
	}
	f.id, f.code, f.value = r.Varint("stream id"), r.Varint("error code"), r.Varint("final size")
	if f.typ == frameResetStreamAt {
		f.reliable = r.Varint("reliable size")
	}
	if f.reliable > f.value && r.Err() == nil {
		return violation(codeFrameEncoding, "stream %d: reliable size %d is above the final size %d", f.id, f.reliable, f.value)
	}
	return nil
}

func (f *frame) streamCount(r *wire.Reader) error {
	f.value = r.Varint("stream count")
	if f.value > maxStreamCount {
		return violation(codeFrameEncoding, "stream count %d is above 2^60", f.value)
	}
	return nil
}

// appendFrame appends a frame whose type is followed by integers only.
func appendFrame(b []byte, typ uint64, fields ...uint64) []byte {
	b = wire.AppendVarint(b, typ)
	for _, v := range fields {
		b = wire.AppendVarint(b, v)
	}
	return b
}

// appendStream appends a whole STREAM frame, always with offset and length: no
// other form is safe on draft 00 and with every released peer.
func appendStream(b []byte, id, offset uint64, data []byte, fin bool) []byte {
	typ := uint64(frameStream | streamOffset | streamLength)
	if fin {
		typ |= streamFin
	}
	b = appendFrame(b, typ, id, offset, uint64(len(data)))
	return append(b, data...)
}

// appendClose appends the CONNECTION_CLOSE frame of e. The type of the frame
// that was at fault is always given as unknown, as released peers do.
func appendClose(b []byte, e *transport.CloseError) []byte {
	code, reason := min(e.Code, wire.MaxVarint), transport.ClipReason(e.Reason)
	if e.Transport {
		b = appendFrame(b, frameTransportClose, code, 0, uint64(len(reason)))
	} else {
		b = appendFrame(b, frameApplicationClose, code, uint64(len(reason)))
	}
	return append(b, reason...)
}

// streamPayload returns how many payload bytes fit a STREAM frame of at most
// budget bytes, 0 when none do: the largest n with n + VarintLen(n) <= room.
func streamPayload(budget int, id, offset uint64) int {
	room := budget - 1 - wire.VarintLen(id) - wire.VarintLen(offset)
	return max(0, min(room-1, 1<<6-1), min(room-2, 1<<14-1), min(room-4, 1<<30-1))
}
