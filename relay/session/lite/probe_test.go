package lite

import (
	"math"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// probed returns a peer of a session whose connection measures, with the opening
// done, and the Probe stream "p" open.
func probed(t *testing.T, v lite.Version, stats transport.Stats) *script {
	t.Helper()
	s := newMeasuredScript(t, v, Config{}, transport.PipeConfig{HasURI: true}, false, stats)
	if v.HasSetup() {
		s.run(`
			accept uni setup
			setup want 01 | 07 02 01 01 01 05 01 0a  # SETUP, two parameters: Probe 1, Hop 10
			setup want fin
			open uni mine
			mine write 01 | 04 01 05 01 07
			mine fin
		`)
	}
	s.run(`
		accept bidi ann
		open bidi p
		p write 04
	`)
	return s
}

// mbps is a connection of so many megabits per second and 20 ms.
func mbps(n float64) transport.Stats {
	return transport.Stats{Bitrate: int64(n * 1e6), RTT: 20 * time.Millisecond}
}

func TestProbeReportsAtOnceThenWhatMovedAndEveryTenSeconds(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := probed(t, v, mbps(1))
		s.run(`
			p want 05 800f4240 14      # 1,000,000 bit/s, 20 ms
			wait 9900ms
			p want nothing
			wait 200ms
			p want 05 800f4240 14      # ten seconds have passed
		`)
		s.ours.SetStats(mbps(1.24)) // not a quarter more
		s.run("wait 200ms\n p want nothing")
		s.ours.SetStats(mbps(1.26))
		s.run("wait 200ms\n p want 05 801339e0 14")
		s.ours.SetStats(mbps(1.386)) // a tenth more: due when the threshold has come down to that, in 6 s
		s.run("wait 5800ms\n p want nothing\n wait 400ms\n p want 05 80152610 14")
		slower := mbps(1.386)
		slower.RTT = 24 * time.Millisecond
		s.ours.SetStats(slower)
		s.run("wait 1s\n p want nothing")
		slower.RTT = 25 * time.Millisecond
		s.ours.SetStats(slower)
		s.run("wait 200ms\n p want 05 80152610 19")
		s.run("p fin\n p want fin\n alive")
	}, lite.Lite04, lite.Lite05, lite.Lite06)
}

func TestProbeHasNoRoundTripTimeOn03(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := probed(t, v, mbps(1))
		s.run("p want 04 800f4240\n p fin\n p want fin\n alive")
	}, lite.Lite03)
}

func TestProbeSaysOnceThatNothingIsKnownAnyMore(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := probed(t, v, transport.Stats{RTT: 400 * time.Microsecond})
		s.run("p want 02 00 01      # no bitrate, and less than 1 ms is 1 ms")
		s.ours.SetStats(transport.Stats{})
		s.run("wait 200ms\n p want 02 00 00\n wait 1m\n p want nothing")
		s.ours.SetStats(mbps(1))
		s.run("wait 200ms\n p want 05 800f4240 14")
	}, lite.Lite06)
}

func TestProbeTargetsAreReadAndIgnored(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := probed(t, v, mbps(1))
		s.run(`
			p want 05 800f4240 14
			p write 05 80989680 00      # 10 Mbit/s, please
			p write 05 80989680 00
			wait 1s
			p want nothing
			p write 01 00               # no round-trip time
			p want reset 0
			alive
		`)
		if n := s.counters.Malformed.Load(); n != 1 {
			t.Fatalf("%d streams count as malformed, want 1", n)
		}
	}, lite.Lite06)
}

// The level is what the connection knows when the session begins.
func TestAProbeStreamIsResetWhereLevelZeroIsDeclared(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v) // whose SETUP has no Probe
		s.ours.SetStats(mbps(1))
		s.run("open bidi p\n p write 04\n p want reset 0\n alive")
	}, versions...)
}

func TestAPeerHasFourProbeStreamsAtMost(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := probed(t, v, mbps(1))
		s.run(`
			p want 05 800f4240 14
			open bidi q
			q write 04
			q want 05 800f4240 14
			open bidi r
			r write 04
			r want 05 800f4240 14
			open bidi s
			s write 04
			s want 05 800f4240 14
			open bidi t
			t write 04
			t want reset 0x30
			p reset 1
			p want fin
			open bidi u
			u write 04
			u want 05 800f4240 14
			u fin
			u want fin
			alive
		`)
	}, lite.Lite06)
}

func TestWhatProbeReportsIsAtLeastOne(t *testing.T) {
	for _, row := range []struct {
		stats transport.Stats
		want  lite.Probe
	}{
		{transport.Stats{}, lite.Probe{}},
		{transport.Stats{Bitrate: 1, RTT: 1}, lite.Probe{Bitrate: 1, RTT: 1}},
		{transport.Stats{Bitrate: -1, RTT: -1}, lite.Probe{}},
		{transport.Stats{Bitrate: math.MaxInt64, RTT: 1600 * time.Microsecond}, lite.Probe{Bitrate: 1<<62 - 1, RTT: 2}},
	} {
		if got := measured(row.stats, lite.Lite06); got != row.want {
			t.Errorf("%+v reads as %+v, want %+v", row.stats, got, row.want)
		}
	}
}
