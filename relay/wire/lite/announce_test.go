package lite

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// announceRequestRows are the bytes of ANNOUNCE_REQUEST.
var announceRequestRows = []row{
	{Lite03, &AnnounceRequest{Prefix: "room/a"}, `
		07              // length 7
		06 726f6f6d2f61 // prefix "room/a"`},
	{Lite03, &AnnounceRequest{}, `
		01 // length 1
		00 // prefix ""`},
	{Lite04, &AnnounceRequest{Prefix: "room/a", ExcludeHop: 6000}, `
		09              // length 9
		06 726f6f6d2f61 // prefix "room/a"
		5770            // exclude hop 6000`},
	{Lite04, &AnnounceRequest{}, `
		02 // length 2
		00 // prefix ""
		00 // exclude hop 0`},
	{Lite05, &AnnounceRequest{Prefix: "room/a", ExcludeHop: 6000}, `
		09              // length 9
		06 726f6f6d2f61 // prefix "room/a"
		5770            // exclude hop 6000`},
	{Lite05, &AnnounceRequest{}, `
		02 // length 2
		00 // prefix ""
		00 // exclude hop 0`},
	{Lite06wip, &AnnounceRequest{Prefix: "room/a"}, `
		07              // length 7
		06 726f6f6d2f61 // prefix "room/a"`},
	{Lite06wip, &AnnounceRequest{}, `
		01 // length 1
		00 // prefix ""`},
	{Lite06, &AnnounceRequest{Prefix: "room/a"}, `
		07              // length 7
		06 726f6f6d2f61 // prefix "room/a"`},
	{Lite06, &AnnounceRequest{}, `
		01 // length 1
		00 // prefix ""`},
}

// announceOKRows are the bytes of ANNOUNCE_OK.
var announceOKRows = []row{
	{Lite05, &AnnounceOK{Hop: 300, Active: 2}, `
		03   // length 3
		412c // hop id 300
		02   // active count 2`},
	{Lite05, &AnnounceOK{}, `
		02 // length 2
		00 // hop id 0
		00 // active count 0`},
	{Lite06wip, &AnnounceOK{Hop: 300, Active: 2}, `
		03   // length 3
		412c // hop id 300
		02   // active count 2`},
	{Lite06wip, &AnnounceOK{}, `
		02 // length 2
		00 // hop id 0
		00 // active count 0`},
	{Lite06, &AnnounceOK{Hop: 300, Active: 2}, `
		03   // length 3
		412c // hop id 300
		02   // active count 2`},
	// Responder withholds its identity; nothing announced yet.
	{Lite06, &AnnounceOK{}, `
		02 // length 2
		00 // hop id 0
		00 // active count 0`},
}

// announceRows are the bytes of announcements in all their forms.
var announceRows = []row{
	// The count alone travels; the id 17 is not on the wire.
	{Lite03, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{0}, Cold: wire.MaxVarint}, `
		06        // length 6
		01        // status active
		03 63616d // suffix "cam"
		01        // hop count 1`},
	{Lite03, &Announce{Kind: AnnounceStart, Suffix: "x/y", Hops: []uint64{0, 0, 0}, Cold: wire.MaxVarint}, `
		06        // length 6
		01        // status active
		03 782f79 // suffix "x/y"
		03        // hop count 3`},
	{Lite03, &Announce{Kind: AnnounceEnd, Suffix: "cam"}, `
		06        // length 6
		00        // status ended
		03 63616d // suffix "cam"
		00        // hop count 0`},
	{Lite04, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{17}, Cold: wire.MaxVarint}, `
		07        // length 7
		01        // status active
		03 63616d // suffix "cam"
		01        // hop count 1
		11        // hop 17`},
	{Lite04, &Announce{Kind: AnnounceStart, Suffix: "x/y", Hops: []uint64{1, 300, 9007199254740991}, Cold: wire.MaxVarint}, `
		11               // length 17
		01               // status active
		03 782f79        // suffix "x/y"
		03               // hop count 3
		01               // hop 1
		412c             // hop 300
		c01fffffffffffff // hop 9007199254740991`},
	{Lite04, &Announce{Kind: AnnounceEnd, Suffix: "cam"}, `
		06        // length 6
		00        // status ended
		03 63616d // suffix "cam"
		00        // hop count 0`},
	// The publisher itself is the last (only) hop before lite-05.
	{Lite04, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{5024722001261877}, Cold: wire.MaxVarint}, `
		0e               // length 14
		01               // status active
		03 63616d        // suffix "cam"
		01               // hop count 1
		c011d9f541faf535 // hop 5024722001261877`},
	{Lite05, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{17}, Cold: wire.MaxVarint}, `
		07        // length 7
		01        // status active
		03 63616d // suffix "cam"
		01        // hop count 1
		11        // hop 17`},
	{Lite05, &Announce{Kind: AnnounceStart, Suffix: "x/y", Hops: []uint64{1, 300, 9007199254740991}, Cold: wire.MaxVarint}, `
		11               // length 17
		01               // status active
		03 782f79        // suffix "x/y"
		03               // hop count 3
		01               // hop 1
		412c             // hop 300
		c01fffffffffffff // hop 9007199254740991`},
	{Lite05, &Announce{Kind: AnnounceEnd, Suffix: "cam"}, `
		06        // length 6
		00        // status ended
		03 63616d // suffix "cam"
		00        // hop count 0`},
	{Lite06wip, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{17}, Warm: 5, Cold: wire.MaxVarint}, `
		00        // type START
		07        // length 7
		03 63616d // suffix "cam"
		01        // hop count 1
		11        // hop 17
		05        // cost 5`},
	{Lite06wip, &Announce{Kind: AnnounceEnd, ID: 3}, `
		01 // type END
		01 // length 1
		03 // announce id 3`},
	{Lite06wip, &Announce{Kind: AnnounceUpdate, ID: 3, Hops: []uint64{17, 300}, Cold: wire.MaxVarint}, `
		02   // type UPDATE
		06   // length 6
		03   // announce id 3
		02   // hop count 2
		11   // hop 17
		412c // hop 300
		00   // cost 0`},
	// Announced by its own publisher.
	{Lite06, &Announce{Kind: AnnounceStart, Suffix: "cam"}, `
		00        // type START
		07        // length 7
		03 63616d // suffix "cam"
		00        // hop count 0
		00        // warm cost 0
		00        // cold cost 0`},
	// Relay that already carries the content: warm discount.
	{Lite06, &Announce{Kind: AnnounceStart, Suffix: "cam", Hops: []uint64{17, 300}, Cold: 12}, `
		00        // type START
		0a        // length 10
		03 63616d // suffix "cam"
		02        // hop count 2
		11        // hop 17
		412c      // hop 300
		00        // warm cost 0
		0c        // cold cost 12`},
	// Route at or above the requested prefix; cold cost unknown (ceiling), as current upstream peers always send it.
	{Lite06, &Announce{Kind: AnnounceStart, Hops: []uint64{17}, Warm: 3, Cold: wire.MaxVarint}, `
		00               // type START
		0c               // length 12
		00               // suffix ""
		01               // hop count 1
		11               // hop 17
		03               // warm cost 3
		ffffffffffffffff // cold cost ceiling`},
	// Repeated 0 hops are legal.
	{Lite06, &Announce{Kind: AnnounceStart, Suffix: "a/b", Hops: []uint64{0, 4, 0}, Warm: 1, Cold: 1}, `
		00        // type START
		0a        // length 10
		03 612f62 // suffix "a/b"
		03        // hop count 3
		00        // hop 0
		04        // hop 4
		00        // hop 0
		01        // warm cost 1
		01        // cold cost 1`},
	{Lite06, &Announce{Kind: AnnounceEnd, ID: 3}, `
		01 // type END
		01 // length 1
		03 // announce id 3`},
	// Id needs two bytes.
	{Lite06, &Announce{Kind: AnnounceEnd, ID: 64}, `
		01   // type END
		02   // length 2
		4040 // announce id 64`},
	{Lite06, &Announce{Kind: AnnounceUpdate, ID: 3, Hops: []uint64{17}, Warm: 7, Cold: 9}, `
		02 // type UPDATE
		05 // length 5
		03 // announce id 3
		01 // hop count 1
		11 // hop 17
		07 // warm cost 7
		09 // cold cost 9`},
	// Draining route priced at the ceiling.
	{Lite06, &Announce{Kind: AnnounceUpdate, Warm: wire.MaxVarint, Cold: wire.MaxVarint}, `
		02               // type UPDATE
		12               // length 18
		00               // announce id 0
		00               // hop count 0
		ffffffffffffffff // warm cost ceiling
		ffffffffffffffff // cold cost ceiling`},
}

// announceLayout says where the length of an announcement is.
func announceLayout(v Version) layout { return layout(v.HasAnnounceIDs()) }

func TestAnnounceRequestHasTheseBytes(t *testing.T) {
	checkRows(t, announceRequestRows, always(lengthFirst), untyped(DecodeAnnounceRequest))
}

func TestAnnounceOKHasTheseBytes(t *testing.T) {
	checkRows(t, announceOKRows, always(lengthFirst), untyped(DecodeAnnounceOK))
}

func TestAnnouncementsHaveTheseBytes(t *testing.T) {
	checkRows(t, announceRows, announceLayout, func(s *wire.StreamReader, v Version) (message, error) {
		return ReadAnnounce(s, v)
	})
}

// Peers read status 2 and never write it.
func TestAnUpdateOn05IsReadFromStatus2AndWrittenAsASecondActive(t *testing.T) {
	m, err := DecodeAnnounce(0, unhex(`
		02        // status update
		03 63616d // suffix "cam"
		01 07     // one hop: 7`), Lite05)
	want := &Announce{Kind: AnnounceUpdate, Suffix: "cam", Hops: []uint64{7}, Cold: wire.MaxVarint}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Fatalf("decoded %+v, %v, want %+v", m, err, want)
	}
	bytes05 := unhex(`
		07        // length 7
		01        // status active
		03 63616d // suffix "cam"
		01 07     // one hop: 7`)
	if got, err := m.Append(nil, Lite05); err != nil || !bytes.Equal(got, bytes05) {
		t.Errorf("Append: %x, %v, want %x", got, err, bytes05)
	}
	for _, v := range []Version{Lite03, Lite04} {
		wantEncodeError(t, m, v, ErrVersion)
	}
}

func TestAStatusThatAVersionDoesNotKnowIsMalformed(t *testing.T) {
	for v, statuses := range map[Version][]byte{Lite03: {2, 3}, Lite04: {2, 255}, Lite05: {3, 64}} {
		for _, status := range statuses {
			_, err := DecodeAnnounce(0, []byte{status, 0, 0}, v)
			if !errors.Is(err, wire.ErrMalformed) {
				t.Errorf("%s: status %d: %v, want malformed", v, status, err)
			}
		}
	}
}

// An ended carries a hop count; peers write 0, and nothing depends on it.
func TestAnEndHasNoHops(t *testing.T) {
	m, err := DecodeAnnounce(0, unhex(`
		00        // status ended
		03 63616d // suffix "cam"
		02 07 08  // two hops`), Lite05)
	if want := (&Announce{Kind: AnnounceEnd, Suffix: "cam"}); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("decoded %+v, %v, want %+v", m, err, want)
	}
	b, err := (&Announce{Kind: AnnounceEnd, Suffix: "cam", Hops: []uint64{7, 8}}).Append(nil, Lite05)
	if want := unhex(`06 00 03 63616d 00`); err != nil || !bytes.Equal(b, want) {
		t.Errorf("Append: %x, %v, want %x", b, err, want)
	}
}

func TestAnnouncementsOfUnknownTypesAreSkipped(t *testing.T) {
	stream := bytes.NewReader(unhex(`
		03    02 ffff     // type 3, two bytes
		4040  00          // type 64, no bytes
		01    01 05       // END of 5
		07    01 00       // type 7
	`))
	s := wire.NewStreamReader(stream, 0)
	m, err := ReadAnnounce(s, Lite06)
	if want := (&Announce{Kind: AnnounceEnd, ID: 5}); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("read %+v, %v, want %+v", m, err, want)
	}
	if _, err := ReadAnnounce(s, Lite06); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

// hopList returns n different hops.
func hopList(n int) []uint64 {
	hops := make([]uint64, n)
	for i := range hops {
		hops[i] = uint64(i) + 1
	}
	return hops
}

func TestAHopListHoldsAtMost32Entries(t *testing.T) {
	for _, v := range everyVersion {
		m := &Announce{Suffix: "cam", Hops: hopList(MaxHops)}
		b, err := m.Append(nil, v)
		if err != nil {
			t.Fatalf("%s: 32 hops: %v", v, err)
		}
		wantEncodeError(t, &Announce{Suffix: "cam", Hops: hopList(MaxHops + 1)}, v, ErrRefused)
		got, err := ReadAnnounce(v.Reader(bytes.NewReader(b), 0), v)
		if err != nil || len(got.Hops) != MaxHops {
			t.Errorf("%s: read %d hops, %v, want 32", v, len(got.Hops), err)
		}
	}
}

// The announcement is read to its end and returned, so that a session can count
// it for the announce ids.
func TestALongerHopListIsRefusedButTheAnnouncementCounts(t *testing.T) {
	for _, v := range everyVersion {
		body := []byte{}
		if !v.HasAnnounceIDs() {
			body = append(body, statusActive)
		}
		if v.HasCopies() {
			body = append(body, 0, 0) // nothing copied
		}
		body = append(body, 1, 'a')
		if v.HasCopies() {
			body = append(body, 0, 0) // no epoch, nothing copied
		}
		body = append(body, 40)
		if v.HasHopIDs() {
			body = append(body, bytes.Repeat([]byte{0}, 40)...)
		}
		if v.HasCopies() {
			body = append(body, 0)
		}
		if v.HasCost() {
			body = append(body, 3)
		}
		if v.HasColdCost() {
			body = append(body, 4)
		}
		m, err := DecodeAnnounce(uint64(AnnounceStart), body, v)
		if !errors.Is(err, ErrRefused) || m == nil || m.Suffix != "a" || m.Hops != nil {
			t.Errorf("%s: 40 hops: %+v, %v, want it refused without hops", v, m, err)
		}
		if v == Lite06 && (m.Warm != 3 || m.Cold != 4) {
			t.Errorf("costs behind the hops: %d, %d, want 3, 4", m.Warm, m.Cold)
		}
	}
}

func TestAHopThatComesTwiceEndsATypedSessionAndDropsAnOlderAnnouncement(t *testing.T) {
	for v, want := range map[Version]error{Lite04: ErrRefused, Lite05: ErrRefused, Lite06wip: ErrViolation, Lite06: ErrViolation} {
		b, err := (&Announce{Suffix: "a", Hops: []uint64{7, 0, 300, 7}}).Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAnnounce(v.Reader(bytes.NewReader(b), 0), v); !errors.Is(err, want) {
			t.Errorf("%s: hop 7 twice: %v, want %v", v, err, want)
		}
	}
}

func TestARefusedSuffixLeavesTheRestOfTheAnnouncement(t *testing.T) {
	m, err := DecodeAnnounce(uint64(AnnounceStart), unhex(`
		04 612f2e2e // suffix "a/.."
		01 07       // one hop: 7
		03 04       // costs`), Lite06)
	want := &Announce{Kind: AnnounceStart, Hops: []uint64{7}, Warm: 3, Cold: 4}
	if !errors.Is(err, ErrRefused) || !reflect.DeepEqual(m, want) {
		t.Errorf("decoded %+v, %v, want %+v refused", m, err, want)
	}
}

// Hop counts are the one number that an array is made for.
func TestAHopCountWithoutHopsIsTruncatedBeforeAnythingIsAllocated(t *testing.T) {
	for _, v := range []Version{Lite04, Lite05, Lite06wip, Lite06} {
		body := []byte{}
		if !v.HasAnnounceIDs() {
			body = append(body, statusActive)
		}
		body = wire.AppendVarint(append(body, 1, 'a'), wire.MaxVarint)
		body = append(body, 1, 2, 3)
		before := allocated()
		_, err := DecodeAnnounce(uint64(AnnounceStart), body, v)
		if got := allocated() - before; got > 4096 {
			t.Errorf("%s: allocated %d bytes, want at most 4096", v, got)
		}
		if !errors.Is(err, wire.ErrTruncated) {
			t.Errorf("%s: %v, want truncated", v, err)
		}
	}
}

func FuzzDecodeAnnounceRequest(f *testing.F) {
	fuzzRows(f, announceRequestRows, always(lengthFirst), ignoringType(DecodeAnnounceRequest))
}

func FuzzDecodeAnnounceOK(f *testing.F) {
	fuzzRows(f, announceOKRows, always(lengthFirst), ignoringType(DecodeAnnounceOK))
}

func FuzzDecodeAnnounce(f *testing.F) {
	fuzzRows(f, announceRows, announceLayout, func(typ uint64, body []byte, v Version) (message, error) {
		m, err := DecodeAnnounce(typ, body, v)
		if err == nil && v == Lite05 && m.Kind == AnnounceUpdate {
			m.Kind = AnnounceStart // it is written as one
		}
		return m, err
	})
}

// A whole stream of announcements, in pieces of any size.
func FuzzReadAnnounce(f *testing.F) {
	for _, v := range everyVersion {
		var stream []byte
		for _, r := range announceRows {
			if r.v == v {
				stream = append(stream, unhex(r.hex)...)
			}
		}
		f.Add(uint8(v), stream)
	}
	f.Fuzz(func(t *testing.T, version uint8, stream []byte) {
		v := everyVersion[int(version)%len(everyVersion)]
		rest := bytes.NewReader(slices.Clone(stream))
		s := v.Reader(rest, 0)
		for {
			left := rest.Len()
			m, err := ReadAnnounce(s, v)
			if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrViolation) {
				return
			}
			if m == nil || len(m.Hops) > MaxHops || rest.Len() >= left {
				t.Fatalf("read %+v, %v, with %d of %d bytes left", m, err, rest.Len(), left)
			}
		}
	})
}
