package lite

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// setupRows are the bytes of SETUP.
var setupRows = []row{
	{Lite05, &Setup{}, `
		01 // length 1
		00 // parameter count 0`},
	{Lite05, &Setup{Probe: ProbeReport, Hop: 300}, `
		08         // length 8
		02         // parameter count 2
		01 01 01   // probe 1
		05 02 412c // hop 300`},
	// Client on a binding without a request URI.
	{Lite05, &Setup{Probe: ProbePad, Path: "/live?jwt=abc", Role: RolePublisher}, `
		16                               // length 22
		03                               // parameter count 3
		01 01 02                         // probe 2
		02 0d 2f6c6976653f6a77743d616263 // path "/live?jwt=abc"
		03 01 01                         // role 1`},
	{Lite06wip, &Setup{}, `
		01 // length 1
		00 // parameter count 0`},
	{Lite06wip, &Setup{Probe: ProbeReport, Hop: 300}, `
		08         // length 8
		02         // parameter count 2
		01 01 01   // probe 1
		05 02 412c // hop 300`},
	{Lite06, &Setup{}, `
		01 // length 1
		00 // parameter count 0`},
	{Lite06, &Setup{Probe: ProbeReport, Hop: 300}, `
		08         // length 8
		02         // parameter count 2
		01 01 01   // probe 1
		05 02 412c // hop 300`},
	{Lite06, &Setup{Path: "/live?jwt=abc", Role: RoleSubscriber}, `
		13                               // length 19
		02                               // parameter count 2
		02 0d 2f6c6976653f6a77743d616263 // path "/live?jwt=abc"
		03 01 02                         // role 2`},
	{Lite06, &Setup{Cost: Some(0), Hop: wire.MaxVarint}, `
		0e                     // length 14
		02                     // parameter count 2
		04 01 00               // cost 0
		05 08 ffffffffffffffff // hop ceiling`},
}

func TestSetupHasTheseBytes(t *testing.T) {
	checkRows(t, setupRows, always(lengthFirst), untyped(DecodeSetup))
}

// An empty path equals an absent one; we leave it out.
func TestAnEmptyPathParameterIsReadAndNotWritten(t *testing.T) {
	m, err := DecodeSetup(unhex(`
		02       // parameter count 2
		02 00    // path ""
		03 01 02 // role 2`), Lite05)
	if want := (&Setup{Role: RoleSubscriber}); err != nil || !reflect.DeepEqual(m, want) {
		t.Fatalf("decoded %+v, %v, want %+v", m, err, want)
	}
	want := unhex(`
		04       // length 4
		01       // parameter count 1
		03 01 02 // role 2`)
	if got, err := m.Append(nil, Lite05); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Append: %x, %v, want %x", got, err, want)
	}
}

func TestUnknownSetupParametersAndOrderDoNotMatter(t *testing.T) {
	m, err := DecodeSetup(unhex(`
		06               // parameter count 6
		4321 03 ffffff   // unknown, 3 bytes
		05 02 412c       // hop 300
		03 01 07         // a role of the future: both
		09 00            // unknown, empty
		01 02 4007       // a probe level of the future: 2
		04 04 80000046   // cost 70, not in its shortest form`), Lite06)
	want := &Setup{Probe: ProbePad, Cost: Some(70), Hop: 300}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("decoded %+v, %v, want %+v", m, err, want)
	}
}

// Cost came with 06: before, its number is just an unknown parameter.
func TestCostIsAParameterSince06Only(t *testing.T) {
	body := unhex(`01  04 02 6162  // cost, no varint of two bytes alone`)
	if m, err := DecodeSetup(body, Lite05); err != nil || m.Cost.Set {
		t.Errorf("on 05: %+v, %v, want it skipped", m, err)
	}
	m := &Setup{Cost: Some(5), Hop: 1}
	want := unhex(`04  01  05 01 01`)
	if got, err := m.Append(nil, Lite05); err != nil || !bytes.Equal(got, want) {
		t.Errorf("05 writes %x, %v, want %x", got, err, want)
	}
}

func TestAParameterThatComesTwiceEndsTheSession(t *testing.T) {
	for _, body := range []string{
		`02  05 01 01  05 01 01`, // hop, hop
		`02  09 00     09 00`,    // unknown, unknown
		`02  02 01 2f  4002 00`,  // path, path with a longer id
	} {
		if _, err := DecodeSetup(unhex(body), Lite06); !errors.Is(err, ErrViolation) {
			t.Errorf("%s: %v, want a violation", body, err)
		}
	}
}

func TestAMalformedSetupParameterIsNamed(t *testing.T) {
	for body, want := range map[string]string{
		`01  05 03 412c00`: "SETUP: hop: bytes left over: 1",
		`01  05 01 41`:     "SETUP: hop: value: truncated",
		`01  05 00`:        "SETUP: hop: value: truncated",
		`01  02 02 c328`:   "SETUP: path: malformed: not UTF-8",
		`01  02 05 2f`:     "SETUP: path: truncated",
		`02  05 01 01`:     "SETUP: parameter id: truncated",
		`4041`:             "SETUP: parameter count: malformed: 65, limit 64",
	} {
		_, err := DecodeSetup(unhex(body), Lite06)
		if !errors.Is(err, wire.ErrMalformed) || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestSixtyFourParametersAreAllowed(t *testing.T) {
	body := wire.AppendVarint(nil, 64)
	for id := range uint64(64) {
		body = append(wire.AppendVarint(body, 100+id), 0)
	}
	if _, err := DecodeSetup(body, Lite06); err != nil {
		t.Error(err)
	}
}

func TestSetupNeverOutgrows65535Bytes(t *testing.T) {
	// parameter count 1, path id 1, path length 4 (from 16,384 on)
	fits := strings.Repeat("p", MaxSetup-6)
	b, err := (&Setup{Path: fits}).Append(nil, Lite06)
	if err != nil || len(b) != 4+MaxSetup {
		t.Errorf("body of 65,535 bytes: %d bytes with its length, %v, want %d", len(b), err, 4+MaxSetup)
	}
	wantEncodeError(t, &Setup{Path: fits + "p"}, Lite06, wire.ErrTooLong)
	s := wire.NewStreamReader(bytes.NewReader(b), MaxSetup)
	body, err := s.Message()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := DecodeSetup(body, Lite06); err != nil || m.Path != fits {
		t.Errorf("decoded a path of %d bytes, %v, want %d", len(m.Path), err, len(fits))
	}
}

func FuzzDecodeSetup(f *testing.F) {
	fuzzRows(f, setupRows, always(lengthFirst), ignoringType(DecodeSetup))
}
