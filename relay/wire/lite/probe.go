package lite

// Probe is PROBE: a report of what a connection can carry, or a target.
type Probe struct {
	// Bitrate is in bits per second; 0 means unknown.
	Bitrate uint64
	// RTT is in milliseconds; 0 means unknown. Since 04.
	RTT uint64
}

// Append appends the message to b.
func (m *Probe) Append(b []byte, v Version) ([]byte, error) {
	e := encode("PROBE", b, v, true)
	e.Varint("bitrate", m.Bitrate)
	if v.HasProbeRTT() {
		e.Varint("rtt", m.RTT)
	}
	return e.close()
}

// DecodeProbe reads the body of PROBE.
func DecodeProbe(body []byte, v Version) (*Probe, error) {
	d := decode("PROBE", body, v, true)
	m := &Probe{Bitrate: d.Varint("bitrate")}
	if v.HasProbeRTT() {
		m.RTT = d.Varint("rtt")
	}
	return m, d.close()
}
