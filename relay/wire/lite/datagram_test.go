package lite

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/moqrelay/operator/relay/wire"
)

// datagramRows are the bytes of datagrams.
var datagramRows = []row{
	{Lite05, &Datagram{SubscribeID: 3, Sequence: 9, Timestamp: 480000, Payload: []byte("opus")}, `
		03       // subscribe id 3
		09       // sequence 9
		80075300 // timestamp 480000
		6f707573 // payload "opus"`},
	{Lite06, &Datagram{SubscribeID: 3, Sequence: 9, Timestamp: 480000, Payload: []byte("opus")}, `
		03       // subscribe id 3
		09       // sequence 9
		80075300 // timestamp 480000
		6f707573 // payload "opus"`},
}

func TestADatagramHasTheseBytes(t *testing.T) {
	for i, r := range datagramRows {
		t.Run(fmt.Sprintf("%d/%s", i, r.v), func(t *testing.T) {
			b := unhex(r.hex)
			checkEncoding(t, r, b)
			m, err := DecodeDatagram(b, r.v)
			if err != nil || !reflect.DeepEqual(&m, r.msg) {
				t.Errorf("decoded %+v, %v, want %+v", m, err, r.msg)
			}
			if &m.Payload[0] != &b[len(b)-len(m.Payload)] {
				t.Error("the payload is a copy, want a part of the datagram")
			}
			for n := range len(b) - len(m.Payload) {
				if _, err := DecodeDatagram(b[:n], r.v); !errors.Is(err, wire.ErrTruncated) {
					t.Errorf("%d bytes: %v, want truncated", n, err)
				}
			}
		})
	}
}

func TestADatagramMayBeEmptyBehindItsHead(t *testing.T) {
	m, err := DecodeDatagram(unhex(`03 09 8007 5300`), Lite06)
	if err != nil || m.Timestamp != 480000 || len(m.Payload) != 0 {
		t.Errorf("decoded %+v, %v, want timestamp 480000 and no payload", m, err)
	}
	wantEncodeError(t, &Datagram{Timestamp: 1 << 62}, Lite06, wire.ErrTooLong)
}

func FuzzDecodeDatagram(f *testing.F) {
	for _, r := range datagramRows {
		f.Add(uint8(r.v), unhex(r.hex))
	}
	f.Fuzz(func(t *testing.T, version uint8, b []byte) {
		v := everyVersion[int(version)%len(everyVersion)]
		m, err := DecodeDatagram(b, v)
		if err != nil {
			return
		}
		again, err := m.Append(nil, v)
		if err != nil || !bytes.HasSuffix(again, m.Payload) {
			t.Fatalf("%x reads as %+v, which becomes %x, %v", b, m, again, err)
		}
		if back, err := DecodeDatagram(again, v); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%x reads as %+v, which becomes %x, which reads as %+v, %v", b, m, again, back, err)
		}
	})
}
