package preflight

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// full is a report with every field set.
func full(certs int) Report {
	end := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Report{
		V: 1, Arch: "amd64", Kernel: "6.18.5", Node: "node-a", Mode: "RaiseNode",
		RX: &Buffer{Want: 4194304, Max: 4194304, Got: 4194304}, TX: &Buffer{Want: 4194304, Max: 212992, Got: 212992},
		Raised: true, MTU: 1500, GSO: true, V4: true, V6: true,
	}
	for i := range certs {
		r.Certs = append(r.Certs, Cert{
			Secret: "secret-" + strconv.Itoa(i), NotAfter: &end,
			Names: []string{"a.example", "b.example"}, SHA256: strings.Repeat("ab", 32),
		})
	}
	return r
}

func TestTheReportIsTheAgreedJSON(t *testing.T) {
	r := full(1)
	r.Err, r.Msg = ReasonSendBelowRequested, "a < b"
	const want = `{"v":1,"arch":"amd64","kernel":"6.18.5","node":"node-a","mode":"RaiseNode",` +
		`"rx":{"want":4194304,"max":4194304,"got":4194304},"tx":{"want":4194304,"max":212992,"got":212992},` +
		`"raised":true,"mtu":1500,"gso":true,"v4":true,"v6":true,` +
		`"certs":[{"secret":"secret-0","notAfter":"2027-01-02T03:04:05Z","names":["a.example","b.example"],` +
		`"sha256":"abababababababababababababababababababababababababababababababab"}],"err":"SendBelowRequested","msg":"a < b"}`
	if got := string(r.JSON()); got != want {
		t.Errorf("report is\n%s\nwant\n%s", got, want)
	}
	again, err := ParseReport(string(r.JSON()))
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("read back: %+v, %v", again, err)
	}
}

func TestAnInvalidConfigurationIsThreeFields(t *testing.T) {
	got := string(Invalid(config.Faults{{Key: "auth.mode", Text: "is required"}}).JSON())
	if want := `{"v":1,"err":"ConfigInvalid","msg":"auth.mode: is required"}`; got != want {
		t.Errorf("report is %s, want %s", got, want)
	}
}

func TestALargeReportLosesTheLeastNeededFirst(t *testing.T) {
	tests := []struct {
		name           string
		r              Report
		sha, dns, fine bool // what is still there
	}{
		{"three certificates", full(3), true, true, true},
		{"six certificates", full(6), false, true, true},
		{"nine certificates", full(9), false, false, true},
		{"seventeen certificates", full(17), false, false, false},
	}
	for _, tt := range tests {
		data := tt.r.JSON()
		if len(data) > 1024 || !json.Valid(data) {
			t.Errorf("%s: %d bytes, valid %v, want at most 1024: %s", tt.name, len(data), json.Valid(data), data)
		}
		got := [3]bool{strings.Contains(string(data), "sha256"), strings.Contains(string(data), "names"), strings.Contains(string(data), "certs")}
		if want := [3]bool{tt.sha, tt.dns, tt.fine}; got != want {
			t.Errorf("%s: hash, names, certificates there: %v, want %v (%d bytes)", tt.name, got, want, len(data))
		}
		if !strings.Contains(string(data), `"rx":{"want":4194304`) {
			t.Errorf("%s: the buffers are gone: %s", tt.name, data)
		}
	}
}

func TestTheFaultyCertificatesStay(t *testing.T) {
	r := full(17)
	r.Certs[16].Err = ReasonExpired
	got, err := ParseReport(string(r.JSON()))
	if err != nil || len(got.Certs) != 1 || got.Certs[0].Secret != "secret-16" || got.Certs[0].Err != ReasonExpired {
		t.Errorf("certificates are %+v, %v, want the expired one alone", got.Certs, err)
	}
	if len(r.Certs) != 17 || r.Certs[0].SHA256 == "" {
		t.Error("the report itself was changed by printing it")
	}
}

func TestNoReportIsTooLarge(t *testing.T) {
	r := full(17)
	for i := range r.Certs {
		r.Certs[i].Err, r.Certs[i].Secret = ReasonKeyMismatch, strings.Repeat("s", 253)
	}
	r.Node, r.Msg, r.Err = strings.Repeat("n", 253), strings.Repeat("\x01é", 100000), ReasonConfigInvalid
	data := r.JSON()
	if len(data) > 1024 || !json.Valid(data) || !strings.Contains(string(data), "ConfigInvalid") {
		t.Errorf("%d bytes, want at most 1024 with the reason: %s", len(data), data)
	}
}

func TestBuffersStopTheStartOnlyWhereRequired(t *testing.T) {
	tests := []struct {
		err                 Reason
		preferred, required int
	}{
		{"", 0, 0},
		{ReasonReceiveBelowRequested, 0, 78},
		{ReasonSendBelowRequested, 0, 78},
		{ReasonRaiseRefused, 0, 78},
		{ReasonConfigInvalid, 78, 78},
		{ReasonSocketFailed, 78, 78},
	}
	for _, tt := range tests {
		r := Report{Err: tt.err}
		if p, q := r.Exit(config.Preferred), r.Exit(config.Required); p != tt.preferred || q != tt.required {
			t.Errorf("%q exits with %d and %d, want %d and %d", tt.err, p, q, tt.preferred, tt.required)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add(string(full(2).JSON()))
	f.Add(`{"v":2,"new":[1]}`)
	f.Add(`{"rx":null,"certs":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReport(text)
		if err != nil {
			return
		}
		if data := r.JSON(); len(data) > MaxReport {
			t.Fatalf("%d bytes from %q", len(data), text)
		}
	})
}
