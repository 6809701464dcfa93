package lite

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// epoch07 is a UUID of version 7.
var epoch07 = Epoch{0x01, 0x98, 0xc0, 0xde, 0x00, 0x00, 0x7a, 0xbc, 0x8d, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab}

// Announcements of lite-07-wip, as it was in October 2026.
var announce07 = []row{
	{Lite07wip, &Announce{Suffix: "room/cam", Hops: []uint64{4660, 22136}, Warm: 3, Cold: wire.MaxVarint}, `
		00                  // type START
		15                  // length 21
		00 00               // path base, path keep: nothing
		08 726f6f6d2f63616d // suffix "room/cam"
		00                  // no epoch
		00                  // hop base: nothing
		02                  // hop count 2
		9234                // hop 4660
		c05678              // hop 22136
		00                  // hop keep
		03                  // cost 3`},
	{Lite07wip, &Announce{
		Suffix: "mic", SuffixCopy: Copy{Base: 1, Keep: 1}, Epoch: epoch07,
		Hops: []uint64{37}, HopCopy: Copy{Base: 1, Keep: 1}, Warm: 3, Cold: wire.MaxVarint,
	}, `
		00                                  // type START
		1c                                  // length 28
		01 01                               // path base, path keep
		03 6d6963                           // suffix "mic"
		10 0198c0de00007abc8def0123456789ab // epoch
		01                                  // hop base
		01                                  // hop count 1
		25                                  // hop 37
		01                                  // hop keep
		03                                  // cost 3`},
	{Lite07wip, &Announce{Kind: AnnounceUpdate, Hops: []uint64{200}, Warm: 128, Cold: wire.MaxVarint}, `
		02   // type UPDATE
		08   // length 8
		00   // announce id 0
		00   // hop base
		01   // hop count 1
		80c8 // hop 200
		00   // hop keep
		8080 // cost 128`},
	{Lite07wip, &Announce{Kind: AnnounceRestart, ID: 1, Epoch: epoch07, Cold: wire.MaxVarint}, `
		03                                  // type RESTART
		16                                  // length 22
		01                                  // announce id 1
		10 0198c0de00007abc8def0123456789ab // epoch
		00                                  // hop base
		00                                  // hop count 0
		00                                  // hop keep
		00                                  // cost 0`},
	{Lite07wip, &Announce{Kind: AnnounceEnd, ID: 200}, `
		01   // type END
		02   // length 2
		80c8 // announce id 200`},
}

// The other messages of lite-07-wip that differ from lite-06.
var messages07 = []struct {
	row
	read reading
}{
	{row{Lite07wip, &Subscribe{ID: 200, Broadcast: "room/cam", Track: "video", Preferences: Preferences{Priority: 128}}, `
		18                  // length 24
		80c8                // subscribe id 200
		08 726f6f6d2f63616d // broadcast "room/cam"
		00                  // no epoch
		05 766964656f       // track "video"
		80 00 00 00 00 00   // priority 128, max age, group start and end, frame start and end`}, untyped(DecodeSubscribe)},
	{row{Lite07wip, &Track{Broadcast: "a", Epoch: epoch07, Track: "t"}, `
		15                                  // length 21
		01 61                               // broadcast "a"
		10 0198c0de00007abc8def0123456789ab // epoch
		01 74                               // track "t"`}, untyped(DecodeTrack)},
	{row{Lite07wip, &Fetch{Broadcast: "a", Track: "t", Priority: 9, Group: 128, FrameEnd: Some(127)}, `
		0b    // length 11
		01 61 // broadcast "a"
		00    // no epoch
		01 74 // track "t"
		09    // priority 9
		8080  // group 128
		00    // frame start 0
		8080  // frame end 127`}, untyped(DecodeFetch)},
	{row{Lite07wip, &SubscribeOK{Group: 42, Largest: Some(42), LargestFrame: 3}, `
		00 // type OK
		03 // length 3
		2a // group 42
		2b // largest group 42
		03 // largest frame 3`}, readResponse},
	{row{Lite07wip, &SubscribeOK{Group: 7}, `
		00 // type OK
		02 // length 2
		07 // group 7
		00 // nothing there yet`}, readResponse},
	{row{Lite07wip, &SubscribeEnd{Group: 50, Streams: 8}, `
		01 // type END
		02 // length 2
		32 // group 50
		08 // 8 streams`}, readResponse},
	{row{Lite07wip, &Setup{Hop: 4660}, `
		05   // length 5
		01   // one parameter
		05   // hop
		02   // of two bytes
		9234 // 4660`}, untyped(DecodeSetup)},
	{row{Lite07wip, &AnnounceRequest{Prefix: "a", Hidden: true}, `
		03    // length 3
		01 61 // prefix "a"
		01    // hidden ones too`}, untyped(DecodeAnnounceRequest)},
	{row{Lite07wip, &Auth{Token: []byte("abc")}, `
		04        // length 4
		03 616263 // token`}, untyped(DecodeAuth)},
	{row{Lite07wip, &AuthOK{Publish: []string{"a/**"}, Subscribe: []string{"a", "b"}, Expires: 128}, `
		00            // type OK
		0d            // length 13
		01            // one pattern to publish
		04 612f2a2a   // "a/**"
		02            // two to subscribe
		01 61         // "a"
		01 62         // "b"
		8080          // 128 ms`}, readAuthReply},
	{row{Lite07wip, &AuthError{Code: SessionUnauthorized, Reason: "no"}, `
		01      // type ERROR
		04      // length 4
		02      // UNAUTHORIZED
		02 6e6f // "no"`}, readAuthReply},
}

func readResponse(s *wire.StreamReader, v Version) (message, error)  { return ReadResponse(s, v) }
func readAuthReply(s *wire.StreamReader, v Version) (message, error) { return ReadAuthReply(s, v) }

func TestMessagesOf07HaveTheseBytes(t *testing.T) {
	checkRows(t, announce07, always(typeFirst), func(s *wire.StreamReader, v Version) (message, error) {
		return ReadAnnounce(s, v)
	})
	for _, m := range messages07 {
		want := unhex(m.hex)
		if got, err := m.msg.Append([]byte{7}, m.v); err != nil || !bytes.Equal(got, append([]byte{7}, want...)) {
			t.Errorf("%T is written as %x, %v, want 07%x", m.msg, got, err, want)
		}
		got, left, err := readRow(m.read, want, m.v)
		if err != nil || len(left) != 0 || !reflect.DeepEqual(got, m.msg) {
			t.Errorf("%x is read as %+v, %v with %d bytes left, want %+v", want, got, err, len(left), m.msg)
		}
	}
}

func TestAFrameOf07HasNumbersOfItsOwnForm(t *testing.T) {
	head := FrameHead{Timestamp: 100, Size: 128}
	want := unhex(`80c8 8080`) // +100 is 200
	got, err := head.Append(nil, Lite07wip, 0)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("written as %x, %v, want %x", got, err, want)
	}
	if back, n, err := ParseFrameHead(want, Lite07wip, 0); back != head || n != len(want) || err != nil {
		t.Errorf("read as %+v of %d bytes, %v", back, n, err)
	}
	for _, text := range []string{`ff4000000000000000 00`, `00 ff4000000000000000`} { // 2^62
		if _, _, err := ParseFrameHead(unhex(text), Lite07wip, 0); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestAnEpochHas16BytesOrNone(t *testing.T) {
	body := append(unhex(`01 61 0f`), bytes.Repeat([]byte{1}, 15)...)
	body = append(body, 1, 't')
	if _, err := DecodeTrack(body, Lite07wip); !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), "15 bytes, want 0 or 16") {
		t.Errorf("an epoch of 15 bytes: %v", err)
	}
}

func TestACostOver2To62IsTheHighestThatOtherVersionsCarry(t *testing.T) {
	m, err := DecodeAnnounce(2, unhex(`00 00 00 00 ffffffffffffffffff`), Lite07wip)
	if err != nil || m.Warm != wire.MaxVarint {
		t.Errorf("cost %d, %v, want %d", m.Warm, err, uint64(wire.MaxVarint))
	}
}

// started resolves STARTs in turn.
func started(t *testing.T, c *Copies, list ...*Announce) {
	t.Helper()
	for _, m := range list {
		if err := c.Resolve(m, false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAnnouncementTakesLeadingSegmentsAndTrailingHopsOfAnEarlierOne(t *testing.T) {
	var c Copies
	first := &Announce{Suffix: "room/a/cam", Hops: []uint64{1, 2, 3}}
	second := &Announce{Suffix: "mic", SuffixCopy: Copy{1, 2}, Hops: []uint64{9}, HopCopy: Copy{1, 2}}
	third := &Announce{SuffixCopy: Copy{2, 1}, HopCopy: Copy{1, 1}}
	started(t, &c, first, second, third)
	if second.Suffix != "room/a/mic" || !slices.Equal(second.Hops, []uint64{9, 2, 3}) {
		t.Errorf("second: %q %v, want room/a/mic [9 2 3]", second.Suffix, second.Hops)
	}
	if third.Suffix != "room" || !slices.Equal(third.Hops, []uint64{3}) {
		t.Errorf("third: %q %v, want room [3]", third.Suffix, third.Hops)
	}
	// What was copied from stays as it was.
	if !slices.Equal(first.Hops, []uint64{1, 2, 3}) {
		t.Errorf("first: %v", first.Hops)
	}
	// An UPDATE copies hops too, and later copies see what it left.
	update := &Announce{Kind: AnnounceUpdate, ID: 0, Hops: []uint64{7}, HopCopy: Copy{2, 1}} // of the second
	fourth := &Announce{Suffix: "x", HopCopy: Copy{3, 2}}                                    // of the first
	started(t, &c, update, fourth)
	if !slices.Equal(update.Hops, []uint64{7, 3}) || !slices.Equal(fourth.Hops, []uint64{7, 3}) {
		t.Errorf("after the update: %v and %v, want [7 3] twice", update.Hops, fourth.Hops)
	}
}

func TestWhatCannotBeCopiedIsAViolation(t *testing.T) {
	for what, m := range map[string]*Announce{
		"nothing is that far back":    {SuffixCopy: Copy{3, 1}},
		"the base has ended":          {HopCopy: Copy{2, 1}},
		"one segment more than it is": {SuffixCopy: Copy{1, 3}},
		"one hop more than it has":    {HopCopy: Copy{1, 3}},
		"kept of nothing":             {SuffixCopy: Copy{0, 1}},
		"hops kept of nothing":        {HopCopy: Copy{0, 1}},
		"a hop comes twice":           {Hops: []uint64{5}, HopCopy: Copy{1, 2}},
	} {
		var c Copies
		started(t, &c, &Announce{Suffix: "gone", Hops: []uint64{1}}, &Announce{Suffix: "a/b", Hops: []uint64{5, 6}},
			&Announce{Kind: AnnounceEnd, ID: 0})
		if err := c.Resolve(m, false); !errors.Is(err, ErrViolation) {
			t.Errorf("%s: %v, want a violation", what, err)
		}
	}
}

func TestWhatIsTooLongAfterCopyingIsRefusedAndCounts(t *testing.T) {
	var c Copies
	started(t, &c, &Announce{Suffix: strings.Repeat("s/", MaxSegments-1) + "s", Hops: hopList(MaxHops)})
	for _, m := range []*Announce{
		{Suffix: "more", SuffixCopy: Copy{1, MaxSegments}},
		{Suffix: "a", Hops: []uint64{99}, HopCopy: Copy{2, MaxHops}}, // the one before counted
	} {
		if err := c.Resolve(m, false); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: %v, want it refused", m, err)
		}
	}
	if err := c.Resolve(&Announce{Suffix: "a", SuffixCopy: Copy{1, 1}}, false); !errors.Is(err, ErrRefused) {
		t.Errorf("a copy of a refused one: %v, want it refused", err)
	}
}

func TestTheLast1024AnnouncementsMayBeCopied(t *testing.T) {
	var c Copies
	for range 1025 {
		started(t, &c, &Announce{Suffix: "a"})
	}
	if len(c.live) != 1024 {
		t.Errorf("%d are held, want 1024", len(c.live))
	}
	if err := c.Resolve(&Announce{Kind: AnnounceUpdate, ID: 5, HopCopy: Copy{1025, 0}}, false); !errors.Is(err, ErrRefused) {
		t.Errorf("1025 back: %v, want it refused", err)
	}
	started(t, &c, &Announce{SuffixCopy: Copy{1024, 1}})
}

func TestAuthPatternsAreBounded(t *testing.T) {
	wantEncodeError(t, &AuthOK{Publish: make([]string, MaxAuthPatterns+1)}, Lite07wip, wire.ErrTooLong)
	if _, err := DecodeAuthReply(0, unhex(`bfff`), Lite07wip); !errors.Is(err, wire.ErrTooLong) { // 16,383
		t.Errorf("16,383 patterns: %v, want too long", err)
	}
	if _, err := DecodeAuthReply(2, nil, Lite07wip); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a reply of type 2: %v, want malformed", err)
	}
	wantEncodeError(t, &Auth{}, Lite06, ErrVersion)
}

func FuzzDecodeAuth(f *testing.F) {
	for _, m := range messages07 {
		f.Add(uint64(0), unhex(m.hex)[1:])
		f.Add(uint64(1), unhex(m.hex)[2:])
	}
	f.Fuzz(func(t *testing.T, typ uint64, body []byte) {
		if m, err := DecodeAuth(body, Lite07wip); err == nil && len(m.Token) > len(body) {
			t.Fatalf("a token of %d bytes from %d", len(m.Token), len(body))
		}
		m, err := DecodeAuthReply(typ, body, Lite07wip)
		if err != nil {
			return
		}
		b, err := m.Append(nil, Lite07wip)
		if err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", m, err)
		}
		again, err := ReadAuthReply(Lite07wip.Reader(bytes.NewReader(b), 0), Lite07wip)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v is read back as %+v, %v", m, again, err)
		}
	})
}

func FuzzCopies(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 1, 0, 2, 1, 0, 0})
	f.Add([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Copies
		for ; len(b) >= 5; b = b[5:] {
			m := &Announce{
				Kind: AnnounceKind(b[0] % 4), ID: uint64(b[1] % 8), Suffix: "a/" + string('a'+rune(b[2]%26)), Hops: []uint64{uint64(b[3]) + 1},
				SuffixCopy: Copy{uint64(b[1] % 5), uint64(b[2] % 5)}, HopCopy: Copy{uint64(b[3] % 5), uint64(b[4] % 5)},
			}
			if err := c.Resolve(m, b[4] > 250); errors.Is(err, ErrViolation) {
				return
			}
			if len(m.Hops) > 2*MaxHops || len(m.Suffix) > MaxPath {
				t.Fatalf("resolved to %d hops and a suffix of %d bytes", len(m.Hops), len(m.Suffix))
			}
		}
	})
}
