package lite

import "testing"

// probeRows are the bytes of PROBE.
var probeRows = []row{
	{Lite03, &Probe{Bitrate: 2500000}, `
		04       // length 4
		802625a0 // bitrate 2500000 bit/s`},
	{Lite04, &Probe{Bitrate: 2500000, RTT: 35}, `
		05       // length 5
		802625a0 // bitrate 2500000 bit/s
		23       // rtt 35 ms`},
	// Bitrate unknown.
	{Lite04, &Probe{RTT: 35}, `
		02 // length 2
		00 // bitrate 0 bit/s
		23 // rtt 35 ms`},
	{Lite05, &Probe{Bitrate: 2500000, RTT: 35}, `
		05       // length 5
		802625a0 // bitrate 2500000 bit/s
		23       // rtt 35 ms`},
	// Bitrate unknown.
	{Lite05, &Probe{RTT: 35}, `
		02 // length 2
		00 // bitrate 0 bit/s
		23 // rtt 35 ms`},
	{Lite06, &Probe{Bitrate: 2500000, RTT: 35}, `
		05       // length 5
		802625a0 // bitrate 2500000 bit/s
		23       // rtt 35 ms`},
}

func TestProbeHasTheseBytes(t *testing.T) {
	checkRows(t, probeRows, always(lengthFirst), untyped(DecodeProbe))
}

func FuzzDecodeProbe(f *testing.F) {
	fuzzRows(f, probeRows, always(lengthFirst), ignoringType(DecodeProbe))
}
