package lite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// A streamRow is all that one side writes on a stream: a stream type, messages, frames.
type streamRow struct {
	v     Version
	parts []any
	hex   string
}

// A frame is a timestamp and a payload.
type frame struct {
	timestamp int64
	payload   string
}

// streamRows are all that one side writes on a stream, up to its FIN.
var streamRows = []streamRow{
	// Whole stream before FIN; no timestamps.
	{Lite03, []any{
		UniGroup,
		&Group{Sequence: 42},
		frame{0, "hello"},
		frame{0, ""},
	}, `
		00            // stream type Group
		02            // length 2
		00            // subscribe id 0
		2a            // sequence 42
		05 68656c6c6f // frame: 5 bytes "hello"
		00            // frame: 0 bytes ""`},
	// Whole stream before FIN; no timestamps.
	{Lite04, []any{
		UniGroup,
		&Group{Sequence: 42},
		frame{0, "hello"},
		frame{0, ""},
	}, `
		00            // stream type Group
		02            // length 2
		00            // subscribe id 0
		2a            // sequence 42
		05 68656c6c6f // frame: 5 bytes "hello"
		00            // frame: 0 bytes ""`},
	{Lite04, []any{
		BidiSubscribe,
		&Subscribe{Broadcast: "room/cam", Track: "video", Preferences: Preferences{Priority: 9}},
	}, `
		02                  // stream type Subscribe
		15                  // length 21
		00                  // subscribe id 0
		08 726f6f6d2f63616d // broadcast "room/cam"
		05 766964656f       // track "video"
		09                  // priority 9
		00                  // ordered 0
		00                  // max age 0 ms
		00                  // group start absent
		00                  // group end absent`},
	// SUBSCRIBE_OK echoes the requested priority; nothing else before FIN.
	{Lite04, []any{
		&SubscribeOK{Preferences: Preferences{Priority: 9}},
	}, `
		00 // type OK
		05 // length 5
		09 // priority 9
		00 // ordered 0
		00 // max age 0 ms
		00 // group start absent
		00 // group end absent`},
	{Lite04, []any{
		UniGroup,
		&Group{},
		frame{0, "key"},
		frame{0, "p"},
	}, `
		00        // stream type Group
		02        // length 2
		00        // subscribe id 0
		00        // sequence 0
		03 6b6579 // frame: 3 bytes "key"
		01 70     // frame: 1 bytes "p"`},
	// Whole stream, FIN follows.
	{Lite05, []any{
		UniSetup,
		&Setup{Hop: 1},
	}, `
		01       // stream type Setup
		04       // length 4
		01       // parameter count 1
		05 01 01 // hop 1`},
	// First frame of a group: delta from 0.
	{Lite05, []any{
		frame{1000, "key"},
	}, `
		47d0 03 6b6579 // frame: delta +1000, 3 bytes "key"`},
	// Whole stream before FIN; third delta is negative.
	{Lite05, []any{
		UniGroup,
		&Group{Sequence: 42},
		frame{1000, "key"},
		frame{1033, "p"},
		frame{1020, "b"},
		frame{1020, ""},
	}, `
		00             // stream type Group
		02             // length 2
		00             // subscribe id 0
		2a             // sequence 42
		47d0 03 6b6579 // frame: delta +1000, 3 bytes "key"
		4042 01 70     // frame: delta +33, 1 bytes "p"
		19 01 62       // frame: delta -13, 1 bytes "b"
		00 00          // frame: delta +0, 0 bytes ""`},
	// Bare frames on the FETCH stream, then FIN.
	{Lite05, []any{
		frame{70, "ab"},
		frame{70, "c"},
	}, `
		408c 02 6162 // frame: delta +70, 2 bytes "ab"
		00 01 63     // frame: delta +0, 1 bytes "c"`},
	// Opener side of an Announce stream.
	{Lite05, []any{
		BidiAnnounce,
		&AnnounceRequest{Prefix: "room"},
	}, `
		01          // stream type Announce
		06          // length 6
		04 726f6f6d // prefix "room"
		00          // exclude hop 0`},
	// Responder side: OK, one initial announcement, then its retraction.
	{Lite05, []any{
		&AnnounceOK{Hop: 99, Active: 1},
		&Announce{Kind: AnnounceStart, Suffix: "cam", Cold: wire.MaxVarint},
		&Announce{Kind: AnnounceEnd, Suffix: "cam"},
	}, `
		03        // length 3
		4063      // hop id 99
		01        // active count 1
		06        // length 6
		01        // status active
		03 63616d // suffix "cam"
		00        // hop count 0
		06        // length 6
		00        // status ended
		03 63616d // suffix "cam"
		00        // hop count 0`},
	// What a JavaScript client sends first: one parameter, a random 53-bit hop id.
	{Lite05, []any{
		UniSetup,
		&Setup{Hop: 368695112968887},
	}, `
		01                     // stream type Setup
		0b                     // length 11
		01                     // parameter count 1
		05 08 c0014f53853d2ab7 // hop 368695112968887`},
	// Exclude hop repeats the id declared in SETUP.
	{Lite05, []any{
		BidiAnnounce,
		&AnnounceRequest{Prefix: "room", ExcludeHop: 368695112968887},
	}, `
		01               // stream type Announce
		0d               // length 13
		04 726f6f6d      // prefix "room"
		c0014f53853d2ab7 // exclude hop 368695112968887`},
	{Lite05, []any{
		&AnnounceOK{Hop: 5692668922293476, Active: 1},
		&Announce{Kind: AnnounceStart, Suffix: "cam", Cold: wire.MaxVarint},
	}, `
		09               // length 9
		c0143973c4efece4 // hop id 5692668922293476
		01               // active count 1
		06               // length 6
		01               // status active
		03 63616d        // suffix "cam"
		00               // hop count 0`},
	{Lite05, []any{
		BidiSubscribe,
		&Subscribe{Broadcast: "room/cam", Track: "video", Preferences: Preferences{Priority: 9}},
	}, `
		02                  // stream type Subscribe
		15                  // length 21
		00                  // subscribe id 0
		08 726f6f6d2f63616d // broadcast "room/cam"
		05 766964656f       // track "video"
		09                  // priority 9
		00                  // ordered 0
		00                  // max age 0 ms
		00                  // group start absent
		00                  // group end absent`},
	// SUBSCRIBE_OK for group 0, later SUBSCRIBE_END with exclusive end 1, then FIN.
	{Lite05, []any{
		&SubscribeOK{},
		&SubscribeEnd{Group: 1},
	}, `
		00 // type OK
		01 // length 1
		00 // group 0
		01 // type END
		01 // length 1
		01 // group 1, exclusive`},
	// Second frame goes back from 3000 to 0.
	{Lite05, []any{
		UniGroup,
		&Group{},
		frame{3000, "key"},
		frame{0, "p"},
	}, `
		00             // stream type Group
		02             // length 2
		00             // subscribe id 0
		00             // sequence 0
		5770 03 6b6579 // frame: delta +3000, 3 bytes "key"
		576f 01 70     // frame: delta -3000, 1 bytes "p"`},
	// First frame on the stream: delta from 0.
	{Lite06, []any{
		frame{1000, "key"},
	}, `
		47d0 03 6b6579 // frame: delta +1000, 3 bytes "key"`},
	// Whole stream before FIN.
	{Lite06, []any{
		UniGroup,
		&Group{Sequence: 42},
		frame{1000, "key"},
		frame{1033, "p"},
		frame{1020, "b"},
		frame{1020, ""},
	}, `
		00             // stream type Group
		03             // length 3
		00             // subscribe id 0
		2a             // sequence 42
		00             // frame start 0
		47d0 03 6b6579 // frame: delta +1000, 3 bytes "key"
		4042 01 70     // frame: delta +33, 1 bytes "p"
		19 01 62       // frame: delta -13, 1 bytes "b"
		00 00          // frame: delta +0, 0 bytes ""`},
	// Partial group: the first frame on the stream is frame 2, its delta is still from 0.
	{Lite06, []any{
		UniGroup,
		&Group{SubscribeID: 1, Sequence: 5, FrameStart: 2},
		frame{70, "ab"},
		frame{70, "c"},
	}, `
		00           // stream type Group
		03           // length 3
		01           // subscribe id 1
		05           // sequence 5
		02           // frame start 2
		408c 02 6162 // frame: delta +70, 2 bytes "ab"
		00 01 63     // frame: delta +0, 1 bytes "c"`},
	// Bare frames on the FETCH stream, then FIN.
	{Lite06, []any{
		frame{70, "ab"},
		frame{70, "c"},
	}, `
		408c 02 6162 // frame: delta +70, 2 bytes "ab"
		00 01 63     // frame: delta +0, 1 bytes "c"`},
	// Whole stream, FIN follows.
	{Lite06, []any{
		UniSetup,
		&Setup{Cost: Some(70)},
	}, `
		01         // stream type Setup
		05         // length 5
		01         // parameter count 1
		04 02 4046 // cost 70`},
	{Lite06, []any{
		BidiAnnounce,
		&AnnounceRequest{Prefix: "room"},
	}, `
		01          // stream type Announce
		05          // length 5
		04 726f6f6d // prefix "room"`},
	// Responder side: id 0 is started, updated, ended.
	{Lite06, []any{
		&AnnounceOK{Hop: 99, Active: 1},
		&Announce{Kind: AnnounceStart, Suffix: "cam"},
		&Announce{Kind: AnnounceUpdate, Hops: []uint64{7}, Warm: 1, Cold: 2},
		&Announce{Kind: AnnounceEnd},
	}, `
		03        // length 3
		4063      // hop id 99
		01        // active count 1
		00        // type START
		07        // length 7
		03 63616d // suffix "cam"
		00        // hop count 0
		00        // warm cost 0
		00        // cold cost 0
		02        // type UPDATE
		05        // length 5
		00        // announce id 0
		01        // hop count 1
		07        // hop 7
		01        // warm cost 1
		02        // cold cost 2
		01        // type END
		01        // length 1
		00        // announce id 0`},
	// Opener side of a Subscribe stream.
	{Lite06, []any{
		BidiSubscribe,
		&Subscribe{ID: 4, Broadcast: "room/a", Track: "video", Preferences: Preferences{Priority: 128}},
		&SubscribeUpdate{Preferences: Preferences{Priority: 10}},
	}, `
		02              // stream type Subscribe
		14              // length 20
		04              // subscribe id 4
		06 726f6f6d2f61 // broadcast "room/a"
		05 766964656f   // track "video"
		80              // priority 128
		00              // max age 0 ms
		00              // group start: no floor
		00              // group end absent
		00              // frame start 0
		00              // frame end absent
		06              // length 6
		0a              // priority 10
		00              // max age 0 ms
		00              // group start: no floor
		00              // group end absent
		00              // frame start 0
		00              // frame end absent`},
}

func TestStreamsHaveTheseBytes(t *testing.T) {
	for i, r := range streamRows {
		t.Run(fmt.Sprintf("%d/%s", i, r.v), func(t *testing.T) {
			want := unhex(r.hex)
			if got := appendParts(t, r); !bytes.Equal(got, want) {
				t.Errorf("wrote\n%x, want\n%x", got, want)
			}
			if r.isFrames() {
				checkFrameStream(t, r, want)
				return
			}
			checkControlStream(t, r, want)
		})
	}
}

// isFrames reports whether the stream carries frames: a group, or an answer to FETCH.
func (r streamRow) isFrames() bool {
	_, ok := r.parts[len(r.parts)-1].(frame)
	return ok
}

// appendParts writes the stream.
func appendParts(t *testing.T, r streamRow) (b []byte) {
	t.Helper()
	var previous int64
	for _, part := range r.parts {
		var err error
		switch p := part.(type) {
		case BidiType:
			b = wire.AppendVarint(b, uint64(p))
		case UniType:
			b = wire.AppendVarint(b, uint64(p))
		case message:
			b, err = p.Append(b, r.v)
		case frame:
			b, err = FrameHead{p.timestamp, uint64(len(p.payload))}.Append(b, r.v, previous)
			b = append(b, p.payload...)
			previous = p.timestamp
		}
		if err != nil {
			t.Fatalf("%+v: %v", part, err)
		}
	}
	return b
}

// checkControlStream reads the stream message by message, whole and cut short.
func checkControlStream(t *testing.T, r streamRow, b []byte) {
	t.Helper()
	got, err := readParts(r, b)
	if err != io.EOF || !reflect.DeepEqual(got, r.parts) {
		t.Errorf("read %+v, %v, want %+v and io.EOF", got, err, r.parts)
	}
	boundaries := 0
	for n := range b {
		got, err := readParts(r, b[:n])
		if err == io.EOF {
			boundaries++
		} else if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v, want an end of the stream", n, err)
		}
		if len(got) >= len(r.parts) {
			t.Errorf("%d of %d bytes were enough for all %d parts", n, len(b), len(got))
		}
	}
	if boundaries != len(r.parts) {
		t.Errorf("%d prefixes end cleanly, want %d: one before each part", boundaries, len(r.parts))
	}
}

// readParts reads the kinds of part that r has from b, until b ends or fails.
func readParts(r streamRow, b []byte) (parts []any, err error) {
	s := r.v.Reader(bytes.NewReader(b), 0)
	for _, want := range r.parts {
		part, err := readPart(s, r.v, want)
		if err != nil {
			return parts, err
		}
		parts = append(parts, part)
	}
	_, err = s.Varint("nothing")
	return parts, err
}

// readPart reads one part of the kind that want has.
func readPart(s *wire.StreamReader, v Version, want any) (any, error) {
	switch want.(type) {
	case BidiType:
		n, err := s.Varint("stream type")
		return BidiType(n), err
	case UniType:
		n, err := s.Varint("stream type")
		return UniType(n), err
	case *Setup:
		return untyped(DecodeSetup)(s, v)
	case *AnnounceRequest:
		return untyped(DecodeAnnounceRequest)(s, v)
	case *AnnounceOK:
		return untyped(DecodeAnnounceOK)(s, v)
	case *Announce:
		return ReadAnnounce(s, v)
	case *Subscribe:
		return untyped(DecodeSubscribe)(s, v)
	case *SubscribeUpdate:
		return untyped(DecodeSubscribeUpdate)(s, v)
	case Response:
		return ReadResponse(s, v)
	}
	return nil, fmt.Errorf("no reading for %T", want)
}

// checkFrameStream reads the stream from a slice that grows by one byte at a
// time, as it would arrive at worst.
func checkFrameStream(t *testing.T, r streamRow, b []byte) {
	t.Helper()
	var got []any
	var previous int64
	start := 0
	for end := range len(b) + 1 {
		for len(got) < len(r.parts) {
			part, n, err := parsePart(b[start:end], r.v, r.parts[len(got)], previous)
			if err != nil {
				t.Fatalf("at %d: %v", start, err)
			}
			if n == 0 {
				break
			}
			if f, ok := part.(frame); ok {
				previous = f.timestamp
			}
			start += n
			got = append(got, part)
		}
	}
	if start != len(b) || !reflect.DeepEqual(got, r.parts) {
		t.Errorf("parsed %d of %d bytes: %+v, want %+v", start, len(b), got, r.parts)
	}
}

// parsePart parses one part of the kind that want has; n is 0 when b is too short.
func parsePart(b []byte, v Version, want any, previous int64) (part any, n int, err error) {
	switch want.(type) {
	case UniType:
		typ, n := wire.ParseVarint(b)
		return UniType(typ), n, nil
	case *Group:
		m, n, err := ParseGroup(b, v)
		return &m, n, err
	case frame:
		h, n, err := ParseFrameHead(b, v, previous)
		if n == 0 || h.Size > uint64(len(b)-n) {
			return nil, 0, err
		}
		end := n + int(h.Size)
		return frame{h.Timestamp, string(b[n:end])}, end, err
	}
	return nil, 0, fmt.Errorf("no parsing for %T", want)
}
