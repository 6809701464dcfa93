package lite

// MaxDatagram is the longest datagram that we send, in bytes. A longer one that
// arrives is accepted.
const MaxDatagram = 1200

// Datagram is a whole group of one frame in a transport's datagram (05 and
// later). It has no length in front.
type Datagram struct {
	// SubscribeID is the subscription that the group is for.
	SubscribeID uint64
	// Sequence is the group's number.
	Sequence uint64
	// Timestamp is absolute, in units of the track's timescale, not zigzag.
	Timestamp uint64
	// Payload is the frame. Decoded, it is a part of the bytes that were given.
	Payload []byte
}

// Append appends the datagram's body to b. Its length is not checked.
func (m *Datagram) Append(b []byte, v Version) ([]byte, error) {
	e := encode("DATAGRAM", b, v, v.HasDatagrams())
	e.Varint("subscribe id", m.SubscribeID)
	e.Varint("sequence", m.Sequence)
	e.Varint("timestamp", m.Timestamp)
	e.Raw(m.Payload)
	return e.closeBare()
}

// DecodeDatagram reads the body of a datagram.
func DecodeDatagram(body []byte, v Version) (Datagram, error) {
	d := decode("DATAGRAM", body, v, v.HasDatagrams())
	m := Datagram{
		SubscribeID: d.Varint("subscribe id"),
		Sequence:    d.Varint("sequence"),
		Timestamp:   d.Varint("timestamp"),
		Payload:     d.Rest(),
	}
	return m, d.close()
}
