//go:build interop

package interop

import (
	"fmt"
	"testing"
)

// The track of these tests: 200 frames of 1 byte to 300 KiB in 20 groups.
const (
	groups    = 20
	perGroup  = 10
	allFrames = groups * perGroup
)

// offers are the subprotocols that the JavaScript client can speak with us.
var offers = []struct{ draft, version string }{
	{"qmux-00", "moq-lite-03"},
	{"qmux-01", "moq-lite-03"},
	{"qmux-02", "moq-lite-03"},
	{"qmux-00", "moq-lite-04"},
	{"qmux-01", "moq-lite-04"},
	{"qmux-02", "moq-lite-04"},
	{"qmux-00", "moq-lite-05"},
	{"qmux-01", "moq-lite-05"},
	{"qmux-02", "moq-lite-05"},
	{"qmux-00", "moq-lite-06-wip"},
	{"qmux-01", "moq-lite-06-wip"},
	{"qmux-02", "moq-lite-06-wip"},
}

// relayFor starts a relay that speaks a version; all but the drafts in work do by default.
func relayFor(t *testing.T, version string) *relay {
	t.Helper()
	if version == "moq-lite-06-wip" {
		return startRelay(t, "--protocols", "moq-lite-06,moq-lite-05,moq-lite-06-wip")
	}
	return startRelay(t)
}

// wantPublished checks that the publisher has sent the whole track, both extremes included.
func wantPublished(t *testing.T, sent frames) {
	t.Helper()
	if len(sent) != allFrames {
		t.Fatalf("the publisher has sent %d frames, want %d", len(sent), allFrames)
	}
	least, most := false, false
	for _, what := range sent {
		var size int
		fmt.Sscanf(what, "%d bytes", &size)
		least, most = least || size == 1, most || size == 300<<10
	}
	if !least || !most {
		t.Fatalf("frames of 1 byte: %v, of 300 KiB: %v; want both", least, most)
	}
}

func TestEveryByteOfAJavaScriptPublisherReachesThreeJavaScriptViewersAndAGoViewer(t *testing.T) {
	for _, o := range offers {
		t.Run(o.version+" "+o.draft, func(t *testing.T) {
			t.Parallel()
			r := relayFor(t, o.version)
			url, protocol := "ws://"+r.clients, o.draft+"."+o.version
			publisher := node(t, "publish.mjs", url, "--protocol", protocol, "--hold", "1")
			viewers := node(t, "watch.mjs", url, "--protocol", protocol, "--viewers", "3")
			goViewer := moqLoad(t, "sub", "http://"+r.clients, "--transport", "quic", "--version", "moq-lite-05", "--frames", "200", "--hashes")

			// The first frame stands alone until everyone has it: then all have subscribed.
			viewers.awaitFrame(3, 0, 0)
			goViewer.awaitFrame(1, 0, 0)
			publisher.tell("go")

			viewers.wantSuccess()
			goViewer.wantSuccess()
			publisher.wantSuccess()
			sent := publisher.seen(0)
			wantPublished(t, sent)
			for v := range 3 {
				wantSame(t, fmt.Sprintf("JavaScript viewer %d", v), viewers.seen(v), sent)
			}
			wantSame(t, "Go viewer", goViewer.seen(0), sent)
		})
	}
}

func TestEveryByteOfAGoPublisherReachesThreeJavaScriptViewers(t *testing.T) {
	for _, o := range offers {
		t.Run(o.version+" "+o.draft, func(t *testing.T) {
			t.Parallel()
			r := relayFor(t, o.version)
			publisher := moqLoad(t, "pub", "http://"+r.clients, "--groups", "20", "--frames", "10", "--size", "1..300Ki",
				"--rate", "0", "--hold-after", "1,200", "--wait", "--hashes", "--linger", "30s")
			viewers := node(t, "watch.mjs", "ws://"+r.clients, "--protocol", o.draft+"."+o.version, "--viewers", "3")
			viewers.awaitFrame(3, 0, 0)
			publisher.tell("go")
			viewers.wantSuccess()
			publisher.wantSuccess() // its track ends only now
			sent := publisher.seen(0)
			wantPublished(t, sent)
			for v := range 3 {
				wantSame(t, fmt.Sprintf("viewer %d", v), viewers.seen(v), sent)
			}
		})
	}
}

func TestAViewerThatJoinsInGroup10GetsThatGroupFromItsFirstFrame(t *testing.T) {
	for _, version := range []string{"moq-lite-03", "moq-lite-04", "moq-lite-05", "moq-lite-06-wip"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := relayFor(t, version)
			url, protocol := "ws://"+r.clients, "qmux-02."+version
			const begun = 10*perGroup + 5 // frames: group 10 has five
			publisher := node(t, "publish.mjs", url, "--protocol", protocol, "--hold", fmt.Sprint("1,", begun))
			early := node(t, "watch.mjs", url, "--protocol", protocol)
			early.awaitFrame(1, 0, 0)
			publisher.tell("go")
			early.awaitFrame(1, 10, 4)

			const rest = allFrames - 10*perGroup
			late := node(t, "watch.mjs", url, "--protocol", protocol, "--frames", fmt.Sprint(rest))
			lateGo := moqLoad(t, "sub", "http://"+r.clients, "--version", "moq-lite-05", "--frames", fmt.Sprint(rest), "--hashes")
			for _, viewer := range []*process{late, lateGo} {
				viewer.awaitFrame(1, 10, 4)
			}
			publisher.tell("go")

			for _, viewer := range []*process{early, late, lateGo} {
				viewer.wantSuccess()
			}
			publisher.wantSuccess()
			sent := publisher.seen(0)
			wantPublished(t, sent)
			wantSame(t, "the early viewer", early.seen(0), sent)
			wantSame(t, "the late viewer", late.seen(0), sent.from(10))
			wantSame(t, "the late Go viewer", lateGo.seen(0), sent.from(10))
		})
	}
}
