package qmux

import (
	"encoding/hex"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// paramRows are whole QX_TRANSPORT_PARAMETERS frames of released peers.
var paramRows = []struct {
	name  string
	since Draft
	again bool // our encoder gives the same bytes
	hex   string
	want  params
}{
	{name: "defaults of released peers, draft-00 (no datagrams; max_record_size is sent although 00 does not define it)", since: Draft00, again: true, hex: "ff5153300d0a0d0a310104800075300404801000000504800400000604800400000704800400000802406409024064c571c59429cd0845027ffe", want: params{idleTimeout: 30000, maxData: 1048576, streamDataBidiLocal: 262144, streamDataBidiRemote: 262144, streamDataUni: 262144, streamsBidi: 100, streamsUni: 100, recordSize: 16382}},
	{name: "defaults of released peers, draft-01", since: Draft01, again: true, hex: "ff5153300d0a0d0a35010480007530040480100000050480040000060480040000070480040000080240640902406420027ffec571c59429cd0845027ffe", want: params{idleTimeout: 30000, maxData: 1048576, streamDataBidiLocal: 262144, streamDataBidiRemote: 262144, streamDataUni: 262144, streamsBidi: 100, streamsUni: 100, datagramSize: 16382, recordSize: 16382}},
	{name: "defaults of released peers, draft-02 (adds empty reset_stream_at)", since: Draft02, again: true, hex: "ff5153300d0a0d0a37010480007530040480100000050480040000060480040000070480040000080240640902406420027ffec571c59429cd0845027ffe1d00", want: params{idleTimeout: 30000, maxData: 1048576, streamDataBidiLocal: 262144, streamDataBidiRemote: 262144, streamDataUni: 262144, streamsBidi: 100, streamsUni: 100, datagramSize: 16382, recordSize: 16382, resetStreamAt: true}},
	{name: "all zero: only max_record_size on the wire", since: Draft00, again: true, hex: "ff5153300d0a0d0a0bc571c59429cd0845027ffe", want: params{recordSize: 16382}},
	{name: "large windows", since: Draft01, again: true, hex: "ff5153300d0a0d0a33040481000000050480400000060480400000070480400000080244000902440020048000ffffc571c59429cd08450480010000", want: params{maxData: 16777216, streamDataBidiLocal: 4194304, streamDataBidiRemote: 4194304, streamDataUni: 4194304, streamsBidi: 1024, streamsUni: 1024, datagramSize: 65535, recordSize: 65536}},
	{name: "largest values", since: Draft01, again: true, hex: "ff5153300d0a0d0a250408ffffffffffffffff0908d000000000000000c571c59429cd084508ffffffffffffffff", want: params{maxData: 4611686018427387903, streamsUni: 1152921504606846976, recordSize: 4611686018427387903}},
	{name: "empty list: every default applies", since: Draft00, again: false, hex: "ff5153300d0a0d0a00", want: params{recordSize: 16382}},
	{name: "reserved (31*N+27) parameter ignored", since: Draft00, again: false, hex: "ff5153300d0a0d0a081b02abcd04027fff", want: params{maxData: 16383, recordSize: 16382}},
	{name: "unknown parameter repeated twice is ignored", since: Draft00, again: false, hex: "ff5153300d0a0d0a094abc004abc00040105", want: params{maxData: 5, recordSize: 16382}},
	{name: "zero-valued parameter present", since: Draft00, again: false, hex: "ff5153300d0a0d0a06010100040100", want: params{recordSize: 16382}},
	{name: "reset_stream_at empty", since: Draft02, again: false, hex: "ff5153300d0a0d0a021d00", want: params{recordSize: 16382, resetStreamAt: true}},
	{name: "non-minimal varint value in a parameter", since: Draft00, again: false, hex: "ff5153300d0a0d0a06040480000001", want: params{maxData: 1, recordSize: 16382}},
}

func TestParametersDecodeAsReleasedPeersWriteThem(t *testing.T) {
	for _, row := range paramRows {
		eachDraft(t, row.name, row.since, func(t *testing.T, d Draft) {
			f, n, err := parseFrame(unhex(row.hex), d)
			if err != nil || n != len(row.hex)/2 {
				t.Fatalf("frame of %d bytes, %v", n, err)
			}
			got, err := parseParams(f.data, d)
			if err != nil || got != row.want {
				t.Errorf("decoded %+v, %v\nwant %+v", got, err, row.want)
			}
		})
	}
}

func TestParametersEncodeAsReleasedPeersWriteThem(t *testing.T) {
	for _, row := range paramRows {
		if got := hex.EncodeToString(appendParams(nil, row.want)); row.again && got != row.hex {
			t.Errorf("%s: encoded %s\nwant %s", row.name, got, row.hex)
		}
	}
}

func TestEveryPrefixOfParametersFails(t *testing.T) {
	for _, row := range paramRows {
		b := unhex(row.hex)
		for n := 1; n < len(b); n++ {
			if err := parseRecord(b[:n], Draft02); err == nil {
				t.Errorf("%s: the first %d of %d bytes are accepted", row.name, n, len(b))
			}
		}
	}
}

func TestParametersBeyondTheirBoundsAreRefused(t *testing.T) {
	for _, row := range []struct {
		name, list string
		draft      Draft
	}{
		{"streams bidi above 2^60", "0808d000000000000001", Draft00},
		{"streams uni above 2^60", "0908d000000000000001", Draft02},
		{"record size below 16382", "c571c59429cd0845025000", Draft01},
		{"record size below 16382", "c571c59429cd0845027ffd", Draft02},
		{"reset_stream_at twice", "1d001d00", Draft02},
		{"integer without bytes", "0400", Draft02},
	} {
		_, err := parseParams(unhex(row.list), row.draft)
		wantViolation(t, row.name, err, codeTransportParameter)
	}
	// What a draft does not define is skipped there, whatever it holds.
	for _, list := range []string{"c571c59429cd0845025000", "1d0101", "1d001d00"} {
		if p, err := parseParams(unhex(list), Draft00); err != nil || p.recordSize != defaultRecordSize || p.resetStreamAt {
			t.Errorf("list %s on draft 00: %+v, %v", list, p, err)
		}
	}
}

func TestConfigAdvertisesWhatItSays(t *testing.T) {
	small := Config{Windows: transport.Windows{Stream: 10, Connection: 120}, MaxIncomingStreams: 4, IdleTimeout: -1, MaxDatagramFrameSize: 100}
	for _, row := range []struct {
		name string
		cfg  Config
		d    Draft
		want params
	}{
		{"defaults", Config{}, Draft02, params{
			idleTimeout: 30_000, maxData: 4 << 20,
			streamDataBidiLocal: 1 << 20, streamDataBidiRemote: 1 << 20, streamDataUni: 1 << 20,
			streamsBidi: 1024, streamsUni: 1024, recordSize: 16382, resetStreamAt: true,
		}},
		{"small", small, Draft01, params{
			maxData: 120, streamDataBidiLocal: 10, streamDataBidiRemote: 10, streamDataUni: 10,
			streamsBidi: 4, streamsUni: 4, datagramSize: 100, recordSize: 16382,
		}},
		{"small on 00", small, Draft00, params{
			maxData: 120, streamDataBidiLocal: 10, streamDataBidiRemote: 10, streamDataUni: 10,
			streamsBidi: 4, streamsUni: 4, recordSize: 16382,
		}},
	} {
		if got := row.cfg.params(row.d); got != row.want {
			t.Errorf("%s: advertises %+v\nwant %+v", row.name, got, row.want)
		}
	}
}

// Parameters that were read are written as the same ones again.
func FuzzParams(f *testing.F) {
	for _, row := range paramRows {
		fr, _, _ := parseFrame(unhex(row.hex), row.since)
		f.Add(fr.data, uint8(row.since))
	}
	f.Fuzz(func(t *testing.T, list []byte, draft uint8) {
		d := Draft(draft % 3)
		p, err := parseParams(list, d)
		if err != nil {
			wantViolation(t, "list", err, codeTransportParameter)
			return
		}
		fr, _, err := parseFrame(appendParams(nil, p), d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseParams(fr.data, d); err != nil || again != p {
			t.Fatalf("%+v was written as %+v, %v", p, again, err)
		}
	})
}
