package lite

import (
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// MaxGoawayURI is the longest URI of GOAWAY, in bytes. From 06 on a longer one ends
// the session; before, the limit of a control message is all there is.
const MaxGoawayURI = 8192

// Goaway is GOAWAY (04 and later): please leave.
type Goaway struct {
	// URI is where to go instead; "" just asks to leave. Only servers send one.
	URI string
}

// Append appends the message to b. A URI over [MaxGoawayURI] is never written.
func (m *Goaway) Append(b []byte, v Version) ([]byte, error) {
	e := encode("GOAWAY", b, v, v.HasGoaway())
	e.String("uri", m.URI, MaxGoawayURI)
	return e.close()
}

// DecodeGoaway reads the body of GOAWAY. Since 06 a URI over [MaxGoawayURI] is
// [ErrViolation].
func DecodeGoaway(body []byte, v Version) (*Goaway, error) {
	d := decode("GOAWAY", body, v, v.HasGoaway())
	m := &Goaway{URI: d.String("uri", wire.MaxControlMessage)}
	if len(m.URI) > MaxGoawayURI && v >= Lite06 {
		d.refuse("uri", fmt.Errorf("%w: %d bytes, limit %d", ErrViolation, len(m.URI), MaxGoawayURI))
	}
	return m, d.close()
}
