package qmux

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
)

// frameRows are frames as released peers write them (again: we write them the
// same) or as they accept them.
var frameRows = []struct {
	name  string
	since Draft // the row holds for this draft and those after it
	again bool  // our encoder gives the same bytes
	rest  bool  // it runs to the end of the record, so its prefixes are frames too
	hex   string
	want  frame
}{
	{name: "STREAM 0x0e, id 0, offset 0", since: Draft00, again: true, hex: "0e00000568656c6c6f", want: frame{typ: frameStream, hasOffset: true, data: unhex("68656c6c6f")}},
	{name: "STREAM 0x0f fin, id 0, offset 5, no payload", since: Draft00, again: true, hex: "0f000500", want: frame{typ: frameStream, hasOffset: true, offset: 5, fin: true}},
	{name: "STREAM 0x0e, client uni id 2, offset 64, 100 bytes (2-byte length)", since: Draft00, again: true, hex: "0e0240404064" + strings.Repeat("ab", 100), want: frame{typ: frameStream, id: 2, hasOffset: true, offset: 64, data: bytes.Repeat([]byte{0xab}, 100)}},
	{name: "STREAM 0x0f, server uni id 3, one byte", since: Draft00, again: true, hex: "0f03000101", want: frame{typ: frameStream, hasOffset: true, id: 3, fin: true, data: unhex("01")}},
	{name: "STREAM 0x0e, id 65536 (4-byte), offset 2^30 (8-byte)", since: Draft00, again: true, hex: "0e80010000c0000000400000000178", want: frame{typ: frameStream, id: 65536, hasOffset: true, offset: 1073741824, data: unhex("78")}},
	{name: "RESET_STREAM id 4 code 42 final 1000", since: Draft00, again: true, hex: "04042a43e8", want: frame{typ: frameResetStream, id: 4, code: 42, value: 1000}},
	{name: "RESET_STREAM id 0 code 0 final 0", since: Draft00, again: true, hex: "04000000", want: frame{typ: frameResetStream}},
	{name: "RESET_STREAM largest code", since: Draft00, again: true, hex: "0407ffffffffffffffff80004000", want: frame{typ: frameResetStream, id: 7, code: 4611686018427387903, value: 16384}},
	{name: "STOP_SENDING id 8 code 7", since: Draft00, again: true, hex: "050807", want: frame{typ: frameStopSending, id: 8, code: 7}},
	{name: "CONNECTION_CLOSE 0x1c code 10 reason", since: Draft00, again: true, hex: "1c0a0003626164", want: frame{typ: frameTransportClose, code: 10, data: []byte("bad")}},
	{name: "CONNECTION_CLOSE 0x1c code 1002 as released peers send it", since: Draft00, again: true, hex: "1c43ea001250726f746f636f6c2076696f6c6174696f6e", want: frame{typ: frameTransportClose, code: 1002, data: []byte("Protocol violation")}},
	{name: "CONNECTION_CLOSE 0x1d (application) code 0, empty reason", since: Draft00, again: true, hex: "1d0000", want: frame{typ: frameApplicationClose, data: []byte("")}},
	{name: "CONNECTION_CLOSE 0x1d (application) code 300, utf-8 reason", since: Draft00, again: true, hex: "1d412c0666696e20c3a9", want: frame{typ: frameApplicationClose, code: 300, data: []byte("fin é")}},
	{name: "MAX_DATA 1048576", since: Draft00, again: true, hex: "1080100000", want: frame{typ: frameMaxData, value: 1048576}},
	{name: "MAX_DATA largest", since: Draft00, again: true, hex: "10ffffffffffffffff", want: frame{typ: frameMaxData, value: 4611686018427387903}},
	{name: "MAX_STREAM_DATA id 4 262144", since: Draft00, again: true, hex: "110480040000", want: frame{typ: frameMaxStreamData, id: 4, value: 262144}},
	{name: "MAX_STREAMS bidi 100", since: Draft00, again: true, hex: "124064", want: frame{typ: frameMaxStreamsBidi, value: 100}},
	{name: "MAX_STREAMS uni 200", since: Draft00, again: true, hex: "1340c8", want: frame{typ: frameMaxStreamsUni, value: 200}},
	{name: "DATA_BLOCKED 1048576", since: Draft00, again: true, hex: "1480100000", want: frame{typ: frameDataBlocked, value: 1048576}},
	{name: "STREAM_DATA_BLOCKED id 2 limit 262144", since: Draft00, again: true, hex: "150280040000", want: frame{typ: frameStreamDataBlocked, id: 2, value: 262144}},
	{name: "STREAMS_BLOCKED bidi 100", since: Draft00, again: true, hex: "164064", want: frame{typ: frameStreamsBlockedBidi, value: 100}},
	{name: "STREAMS_BLOCKED uni 100", since: Draft00, again: true, hex: "174064", want: frame{typ: frameStreamsBlockedUni, value: 100}},
	{name: "QX_PING request seq 0", since: Draft01, again: true, hex: "f48c67529ef8c7bd00", want: frame{typ: framePingRequest}},
	{name: "QX_PING request seq 16384", since: Draft01, again: true, hex: "f48c67529ef8c7bd80004000", want: frame{typ: framePingRequest, value: 16384}},
	{name: "QX_PING response seq 0", since: Draft01, again: true, hex: "f48c67529ef8c7be00", want: frame{typ: framePingResponse}},
	{name: "DATAGRAM 0x31", since: Draft01, again: true, hex: "3105646772616d", want: frame{typ: frameDatagram, data: unhex("646772616d")}},
	{name: "DATAGRAM 0x31 empty", since: Draft01, again: true, hex: "3100", want: frame{typ: frameDatagram}},
	{name: "STREAM 0x08 no offset no length, to end of record", since: Draft01, rest: true, hex: "08046869", want: frame{typ: frameStream, id: 4, data: unhex("6869")}},
	{name: "STREAM 0x09 fin, no offset no length", since: Draft01, rest: true, hex: "09046869", want: frame{typ: frameStream, id: 4, fin: true, data: unhex("6869")}},
	{name: "STREAM 0x0a length only", since: Draft00, hex: "0a04026869", want: frame{typ: frameStream, id: 4, data: unhex("6869")}},
	{name: "STREAM 0x0b length + fin", since: Draft00, hex: "0b04026869", want: frame{typ: frameStream, id: 4, fin: true, data: unhex("6869")}},
	{name: "STREAM 0x0c offset, no length", since: Draft01, rest: true, hex: "0c04056869", want: frame{typ: frameStream, id: 4, hasOffset: true, offset: 5, data: unhex("6869")}},
	{name: "STREAM 0x0d offset, no length, fin", since: Draft01, rest: true, hex: "0d04056869", want: frame{typ: frameStream, id: 4, hasOffset: true, offset: 5, fin: true, data: unhex("6869")}},
	{name: "DATAGRAM 0x30, to end of record", since: Draft01, rest: true, hex: "306467", want: frame{typ: frameDatagram, data: unhex("6467")}},
	{name: "PADDING x3", since: Draft01, hex: "000000", want: frame{}},
	{name: "PADDING then MAX_DATA then PADDING", since: Draft01, hex: "00100400", want: frame{typ: frameMaxData, value: 4}},
	{name: "RESET_STREAM_AT 0x24 id 3 code 9 final 100 reliable 40", since: Draft02, hex: "240309406428", want: frame{typ: frameResetStreamAt, reliable: 40, id: 3, code: 9, value: 100}},
	{name: "CONNECTION_CLOSE 0x1c with the offending frame type 0x0e", since: Draft00, hex: "1c0a0e0178", want: frame{typ: frameTransportClose, code: 10, value: 0x0e, data: []byte("x")}},
	{name: "MAX_DATA with a non-minimal varint value", since: Draft00, hex: "104004", want: frame{typ: frameMaxData, value: 4}},
	{name: "frame type as a non-minimal varint", since: Draft00, hex: "401004", want: frame{typ: frameMaxData, value: 4}},
}

// frameErrorRows are records that no frame can be read from.
var frameErrorRows = []struct {
	name  string
	since Draft
	hex   string
	code  uint64
}{
	{"prohibited PING 0x01", Draft00, "01", 7},
	{"prohibited ACK 0x02", Draft00, "0200000000", 7},
	{"prohibited ACK_ECN 0x03", Draft00, "0300000000000000", 7},
	{"prohibited CRYPTO 0x06", Draft00, "060000", 7},
	{"prohibited NEW_TOKEN 0x07", Draft00, "0701aa", 7},
	{"prohibited NEW_CONNECTION_ID 0x18", Draft00, "180000040000000000000000000000000000000000000000", 7},
	{"prohibited RETIRE_CONNECTION_ID 0x19", Draft00, "1900", 7},
	{"prohibited PATH_CHALLENGE 0x1a", Draft00, "1a0000000000000000", 7},
	{"prohibited PATH_RESPONSE 0x1b", Draft00, "1b0000000000000000", 7},
	{"prohibited HANDSHAKE_DONE 0x1e", Draft00, "1e", 7},
	{"unknown frame type 0x40ff", Draft00, "40ff", 7},
	{"truncated varint at frame type", Draft00, "40", 7},
	{"STREAM length past the record end", Draft00, "0a04056869", 7},
	{"MAX_STREAM_DATA missing its value", Draft00, "1104", 7},
	{"CONNECTION_CLOSE reason past the end", Draft00, "1c0a000578", 7},
	{"truncated final frame after a good one", Draft01, "10041104", 7},
	{"RESET_STREAM_AT reliable size above final size", Draft02, "240309284064", 7},
	{"parameters length past the record end", Draft00, "ff5153300d0a0d0a050401", 7},
	{"parameter value length past the list end", Draft00, "ff5153300d0a0d0a03040501", 8},
	{"duplicate initial_max_data", Draft00, "ff5153300d0a0d0a06040105040106", 8},
	{"integer parameter with trailing bytes", Draft00, "ff5153300d0a0d0a0404020500", 8},
	{"prohibited parameter original_destination_connection_id (0x00)", Draft00, "ff5153300d0a0d0a020000", 8},
	{"prohibited parameter stateless_reset_token (0x02)", Draft00, "ff5153300d0a0d0a020200", 8},
	{"prohibited parameter max_udp_payload_size (0x03)", Draft00, "ff5153300d0a0d0a020300", 8},
	{"prohibited parameter ack_delay_exponent (0x0a)", Draft00, "ff5153300d0a0d0a020a00", 8},
	{"prohibited parameter max_ack_delay (0x0b)", Draft00, "ff5153300d0a0d0a020b00", 8},
	{"prohibited parameter disable_active_migration (0x0c)", Draft00, "ff5153300d0a0d0a020c00", 8},
	{"prohibited parameter preferred_address (0x0d)", Draft00, "ff5153300d0a0d0a020d00", 8},
	{"prohibited parameter active_connection_id_limit (0x0e)", Draft00, "ff5153300d0a0d0a020e00", 8},
	{"prohibited parameter initial_source_connection_id (0x0f)", Draft00, "ff5153300d0a0d0a020f00", 8},
	{"prohibited parameter retry_source_connection_id (0x10)", Draft00, "ff5153300d0a0d0a021000", 8},
	{"reset_stream_at with a value", Draft02, "ff5153300d0a0d0a031d0101", 8},
	{"application_protocols over WebSocket", Draft01, "ff5153300d0a0d0a21fd4f9c2a8b1e6075180b6d6f712d6c6974652d30350b6d6f712d6c6974652d3034", 8},
	{"STREAM offset + length above 2^62-1", Draft00, "0e04ffffffffffffffff0100", 7},
	{"MAX_STREAMS above 2^60", Draft00, "12d000000000000001", 7},
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// eachDraft calls f for every draft from since on.
func eachDraft(t *testing.T, name string, since Draft, f func(t *testing.T, d Draft)) {
	t.Helper()
	for d := since; d <= Draft02; d++ {
		t.Run(name+"/"+d.String(), func(t *testing.T) { f(t, d) })
	}
}

func TestFramesDecodeAsReleasedPeersWriteThem(t *testing.T) {
	for _, row := range frameRows {
		eachDraft(t, row.name, row.since, func(t *testing.T, d Draft) {
			b := unhex(row.hex)
			got, n, err := parseFrame(b, d)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.data) == 0 {
				got.data, row.want.data = nil, nil
			}
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("decoded %+v\nwant %+v", got, row.want)
			}
			if left := bytes.Trim(b[n:], "\x00"); len(left) != 0 {
				t.Errorf("%d bytes were left", len(left))
			}
		})
	}
}

func TestFramesEncodeAsReleasedPeersWriteThem(t *testing.T) {
	for _, row := range frameRows {
		if got := hex.EncodeToString(encode(row.want)); row.again && got != row.hex {
			t.Errorf("%s: encoded %s, want %s", row.name, got, row.hex)
		}
	}
}

// encode writes a frame as the connection does.
func encode(f frame) []byte {
	switch f.typ {
	case frameStream:
		return appendStream(nil, f.id, f.offset, f.data, f.fin)
	case frameResetStream:
		return appendFrame(nil, f.typ, f.id, f.code, f.value)
	case frameStopSending:
		return appendFrame(nil, f.typ, f.id, f.code)
	case frameMaxStreamData, frameStreamDataBlocked:
		return appendFrame(nil, f.typ, f.id, f.value)
	case frameTransportClose, frameApplicationClose:
		return appendClose(nil, &transport.CloseError{
			Code: f.code, Reason: string(f.data), Transport: f.typ == frameTransportClose,
		})
	case frameDatagram: // we send none; the length form is what peers send
		return append(appendFrame(nil, frameDatagramLength, uint64(len(f.data))), f.data...)
	}
	return appendFrame(nil, f.typ, f.value)
}

func TestEveryPrefixOfAFrameFails(t *testing.T) {
	for _, row := range frameRows {
		if row.rest || row.want.typ == 0 || strings.HasPrefix(row.name, "PADDING") {
			continue
		}
		for n := 1; n < len(row.hex)/2; n++ {
			_, _, err := parseFrame(unhex(row.hex)[:n], Draft02)
			wantViolation(t, row.name, err, codeFrameEncoding)
		}
	}
}

func TestBadFramesAreRefusedWithTheirCode(t *testing.T) {
	for _, row := range frameErrorRows {
		eachDraft(t, row.name, row.since, func(t *testing.T, d Draft) {
			wantViolation(t, row.name, parseRecord(unhex(row.hex), d), row.code)
		})
	}
}

// parseRecord reads all frames of a record, parameters included.
func parseRecord(b []byte, d Draft) error {
	for len(b) > 0 {
		f, n, err := parseFrame(b, d)
		if err != nil {
			return err
		}
		if f.typ == frameParameters {
			if _, err := parseParams(f.data, d); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

func wantViolation(t *testing.T, what string, err error, code uint64) {
	t.Helper()
	e, ok := errors.AsType[*transport.CloseError](err)
	if !ok || !e.Transport || e.Code != code {
		t.Errorf("%s: error is %v, want transport code %d", what, err, code)
	}
}

func TestFramesOfLaterDraftsAreUnknownToEarlierOnes(t *testing.T) {
	for _, d := range []Draft{Draft00, Draft01} {
		_, _, err := parseFrame(unhex("240309406428"), d)
		wantViolation(t, "RESET_STREAM_AT on "+d.String(), err, codeFrameEncoding)
	}
	// Draft 00 writes a ping without a number; one with it is accepted too.
	for _, ping := range []string{"f48c67529ef8c7bd", "f48c67529ef8c7bd07"} {
		if _, n, err := parseFrame(unhex(ping), Draft00); err != nil || n != len(ping)/2 {
			t.Errorf("ping %s on draft 00: %d bytes, %v", ping, n, err)
		}
	}
}

func TestStreamPayloadFillsTheBudget(t *testing.T) {
	for _, row := range []struct {
		budget     int
		id, offset uint64
		want       int
	}{
		{16382, 0, 0, 16377},
		{16382, 3, 64, 16376},
		{16382, 65536, 1 << 30, 16367},
		{16384, 0, 0, 16379},
		{65536, 2, 16384, 65526},
		{16384, 402, 20000, 16375},
		{4, 0, 0, 0},
		{5, 0, 0, 1},
		{3, 0, 0, 0},
		{1 + 1 + 1 + 1 + 63, 0, 0, 63},
		{1 + 1 + 1 + 1 + 64, 0, 0, 63}, // 64 would need a longer length
	} {
		got := streamPayload(row.budget, row.id, row.offset)
		if got != row.want {
			t.Errorf("budget %d, id %d, offset %d: %d bytes fit, want %d", row.budget, row.id, row.offset, got, row.want)
		}
		size := func(n int) int { return len(appendStream(nil, row.id, row.offset, make([]byte, n), true)) }
		if got > 0 && size(got) > row.budget || size(got+1) <= row.budget {
			t.Errorf("budget %d: %d bytes make a frame of %d, one more of %d", row.budget, got, size(got), size(got+1))
		}
	}
}

func TestACloseReasonIsCutAndItsCodeFits(t *testing.T) {
	b := appendClose(nil, &transport.CloseError{Code: 1 << 63, Reason: strings.Repeat("x", 2000)})
	f, n, err := parseFrame(b, Draft02)
	if err != nil || n != len(b) || len(f.data) != transport.MaxReason || f.code != wire.MaxVarint {
		t.Errorf("close of %d bytes: code %d, %d bytes of reason, %v", n, f.code, len(f.data), err)
	}
}

// A frame that was decoded is written as the same frame again, and never has
// more bytes than its record.
func FuzzFrame(f *testing.F) {
	for _, row := range frameRows {
		f.Add(unhex(row.hex), uint8(row.since))
	}
	for _, row := range frameErrorRows {
		f.Add(unhex(row.hex), uint8(row.since))
	}
	f.Fuzz(func(t *testing.T, b []byte, draft uint8) {
		d := Draft(draft % 3)
		if len(b) == 0 {
			return
		}
		got, n, err := parseFrame(b, d)
		if err != nil {
			wantEncodingViolation(t, err)
			return
		}
		if n < 1 || n > len(b) || len(got.data) > n {
			t.Fatalf("a frame of %d bytes with %d of data in a record of %d", n, len(got.data), len(b))
		}
		if got.typ == 0 || got.typ == frameParameters || got.typ == frameResetStreamAt {
			return
		}
		got.hasOffset = true // we always write one
		if got.typ == frameTransportClose {
			got.value = 0 // nor do we name the frame at fault
		}
		got.data = got.data[:min(len(got.data), transport.MaxReason)]
		if again, _, err := parseFrame(encode(got), Draft02); err != nil || again.typ != got.typ ||
			again.id != got.id || again.offset != got.offset || again.value != got.value || again.code != got.code {
			t.Fatalf("%+v was written as %+v, %v", got, again, err)
		}
	})
}

func wantEncodingViolation(t *testing.T, err error) {
	t.Helper()
	if e, ok := errors.AsType[*transport.CloseError](err); !ok || e.Code != codeFrameEncoding {
		t.Fatalf("error %v has no FRAME_ENCODING_ERROR", err)
	}
}
