package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// at is noon plus so many seconds.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// meshDocument is a pod's with a session to so many of its peers.
func meshDocument(expected, connected int, missing ...string) status.Document {
	c := &status.Cluster{Expected: expected, Connected: connected}
	for _, address := range missing {
		c.Peers = append(c.Peers, status.Peer{Address: address, State: "Connecting", Error: "attempt 7 failed"})
	}
	return status.Document{Schema: 1, Started: noon, Cluster: c}
}

func TestAMissingPeerIsToldAfterSixtySecondsAndNotBefore(t *testing.T) {
	var h history
	for _, row := range []struct {
		second              int
		expected, connected int
		others              int
		want                bool
	}{
		{0, 2, 2, 2, false},
		{30, 2, 1, 2, false},
		{60, 2, 1, 2, false},
		{89, 2, 0, 2, false},
		{90, 2, 1, 2, true},
		{120, 2, 1, 2, true},
		{150, 2, 2, 2, false},
		{180, 2, 1, 2, false}, // the minute begins anew
		{210, 2, 2, 2, false},
		{240, 0, 0, 2, false}, // DNS names nobody, but the operator sees two
		{300, 0, 0, 2, true},
		{330, 0, 0, 0, false}, // scaled to one
		{360, 3, 4, 2, false}, // more than expected is enough
	} {
		h.take(meshDocument(row.expected, row.connected), row.others, at(row.second))
		if h.PeersMissing != row.want {
			t.Errorf("at second %d, %d of %d (the operator sees %d): missing is %v, want %v", row.second, row.connected, row.expected, row.others, h.PeersMissing, row.want)
		}
	}
}

func TestMissingPeersAreSorted(t *testing.T) {
	var h history
	d := meshDocument(6, 0, "10.0.0.5:4444", "10.0.0.1:4444", "10.0.0.4:4444", "10.0.0.2:4444", "10.0.0.3:4444")
	d.Cluster.Peers = append(d.Cluster.Peers, status.Peer{Address: "10.0.0.0:4444", State: "Connected"})
	h.take(d, 6, at(0))
	if h.Missing != nil {
		t.Errorf("before the minute is over %q are named", h.Missing)
	}
	h.take(d, 6, at(60))
	if want := []string{"10.0.0.1:4444", "10.0.0.2:4444", "10.0.0.3:4444", "10.0.0.4:4444", "10.0.0.5:4444"}; !slices.Equal(h.Missing, want) {
		t.Errorf("missing are %q, want %q", h.Missing, want)
	}
}

func TestARelayOutsideAMeshMissesNobody(t *testing.T) {
	var h history
	h.take(meshDocument(2, 0), 2, at(0))
	h.take(status.Document{Schema: 1, Started: noon}, 2, at(60)) // whatever the operator sees
	if h.Mesh || h.PeersMissing || h.Expected != 0 {
		t.Errorf("the reading is %+v, want no mesh", h.Reading)
	}
	h.take(status.Document{Schema: 1, Started: noon, Cluster: &status.Cluster{Upstreams: []status.Upstream{{State: "Connecting"}}}}, 0, at(120))
	if h.Mesh || h.PeersMissing {
		t.Errorf("a relay with upstreams alone reads as %+v, want no mesh", h.Reading)
	}
}

func TestKernelDropsNeedTwoFastSamplesAndFiveCleanMinutes(t *testing.T) {
	var h history
	for _, row := range []struct {
		second int
		drops  uint64
		want   bool
	}{
		{0, 1_000_000, false},  // nothing to compare with
		{30, 1_003_001, false}, // 100.03 a second, once
		{60, 1_006_001, false}, // 100 a second is not more than 100
		{90, 1_009_002, false}, // once again
		{120, 1_012_003, true}, // and again
		{150, 1_012_003, true}, // one clean sample
		{390, 1_012_003, true}, // 4.5 minutes
		{419, 1_012_004, true}, // a second short of five minutes
		{420, 1_012_004, false},
		{450, 1_112_004, false},
		{480, 1_212_004, true},
		{510, 500_000, true}, // a counter that went back says nothing
	} {
		d := status.Document{Schema: 1, Started: noon, SocketBuffers: &status.SocketBuffers{Drops: row.drops}}
		h.take(d, 0, at(row.second))
		if h.KernelDrops != row.want {
			t.Errorf("at second %d with %d drops: %v, want %v", row.second, row.drops, h.KernelDrops, row.want)
		}
	}
}

func TestANewProcessCountsFromZero(t *testing.T) {
	var h history
	document := func(started time.Time, drops uint64) status.Document {
		return status.Document{Schema: 1, Started: started, SocketBuffers: &status.SocketBuffers{Drops: drops}}
	}
	h.take(document(at(0), 10), 0, at(0))
	h.take(document(at(25), 90_000), 0, at(30)) // began five seconds ago: no rate is known
	h.take(document(at(25), 180_000), 0, at(60))
	if h.KernelDrops {
		t.Error("one comparable sample is called a loss")
	}
	h.take(document(at(25), 270_000), 0, at(90))
	if !h.KernelDrops {
		t.Error("two samples of 3,000 a second are not called a loss")
	}
}

func TestThreeUnansweredAsksMakeAPodUnreachableAndOneAnswerEndsIt(t *testing.T) {
	var h history
	h.take(meshDocument(2, 2), 2, at(0))
	for i, want := range []bool{false, false, true, true} {
		h.fail()
		if h.Unreachable != want || h.Answered == want {
			t.Errorf("after %d failures: unreachable %v, answered %v", i+1, h.Unreachable, h.Answered)
		}
	}
	if h.Mesh || h.Expected != 0 {
		t.Errorf("of an unreachable pod %+v is told", h.Reading)
	}
	h.take(meshDocument(2, 2), 2, at(120))
	if h.Unreachable || !h.Answered || h.Connected != 2 {
		t.Errorf("after an answer the reading is %+v", h.Reading)
	}
	h.fail()
	if h.Unreachable {
		t.Error("failures of before the answer count")
	}
}

func TestFiguresThatNobodyCanHaveAreCut(t *testing.T) {
	var h history
	h.take(meshDocument(1<<62, -5), 0, at(0))
	if h.Expected != 1<<20 || h.Connected != 0 {
		t.Errorf("expected %d, connected %d; want 1048576 and 0", h.Expected, h.Connected)
	}
	long := fmt.Sprintf("%0129d", 0)
	h.take(meshDocument(9, 0, long), 0, at(60))
	if !h.PeersMissing || len(h.Missing) != 0 {
		t.Errorf("an address of 129 bytes is kept: %q", h.Missing)
	}
}

func TestWhatIsInForceIsReadAndCut(t *testing.T) {
	var h history
	h.take(status.Document{Schema: 1, Config: status.Config{Hash: "aa", LiveHash: "bb", Rejected: strings.Repeat("é", 400)}}, 0, at(0))
	if h.ConfigHash != "aa" || h.LiveHash != "bb" || h.Rejected != strings.Repeat("é", 256) {
		t.Errorf("hashes %q and %q, fault of %d bytes; want aa, bb and 512", h.ConfigHash, h.LiveHash, len(h.Rejected))
	}
	h.take(status.Document{Schema: 1, Config: status.Config{Hash: strings.Repeat("a", 500), Rejected: "x" + strings.Repeat("é", 400)}}, 0, at(30))
	if len(h.ConfigHash) != 128 || len(h.Rejected) != 511 {
		t.Errorf("a hash of %d bytes and a fault of %d are kept, want 128 and 511", len(h.ConfigHash), len(h.Rejected))
	}
}

func TestReadingsDifferOnlyInWhatTheySay(t *testing.T) {
	a := Reading{Answered: true, Mesh: true, Expected: 2, Connected: 1, PeersMissing: true, Missing: []string{"x"}}
	b := a
	b.Missing = []string{"x"}
	if !a.Equal(b) {
		t.Error("equal readings differ")
	}
	for name, change := range map[string]func(r *Reading){
		"Answered": func(r *Reading) { r.Answered = false }, "Unreachable": func(r *Reading) { r.Unreachable = true },
		"Mesh": func(r *Reading) { r.Mesh = false }, "Expected": func(r *Reading) { r.Expected = 3 }, "Connected": func(r *Reading) { r.Connected = 2 },
		"PeersMissing": func(r *Reading) { r.PeersMissing = false }, "Missing": func(r *Reading) { r.Missing = []string{"y"} },
		"KernelDrops": func(r *Reading) { r.KernelDrops = true }, "ConfigHash": func(r *Reading) { r.ConfigHash = "a" },
		"LiveHash": func(r *Reading) { r.LiveHash = "a" }, "Rejected": func(r *Reading) { r.Rejected = "a" },
	} {
		c := a
		change(&c)
		if a.Equal(c) {
			t.Errorf("readings that differ in %s are called equal", name)
		}
	}
}
