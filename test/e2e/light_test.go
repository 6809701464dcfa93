//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// light is how long an apply may take to a relay that clients can use, with the
// images on the node: the specification's figure.
const light = 30 * time.Second

func TestTheSampleIsReadyWithin30SecondsAndPublicClientsStreamThroughItsPod(t *testing.T) {
	s := newSpace(t)
	sample, err := os.ReadFile(inRoot("config/samples/moqrelay_demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied := time.Now()
	s.apply(string(sample))
	relay := s.ready("demo")
	// Both are the cluster's own times, in whole seconds.
	became := meta.FindStatusCondition(relay.Status.Conditions, v1alpha1.ConditionReady).LastTransitionTime
	took := became.Sub(relay.CreationTimestamp.Time)
	t.Logf("ready %v after it was made, seen %.1f s after apply", took, time.Since(applied).Seconds())
	if took > light {
		t.Errorf("ready %v after it was made, want at most %v", took, light)
	}
	urls := endpointsOf(t, relay)
	wide := s.kubectl("get", "moqrelays", "-o", "wide")
	for _, want := range []string{"READY", "ADDRESS", "BUFFERS", urls[v1alpha1.EndpointWebTransport], images.relay, v1alpha1.ReasonGranted} {
		if !strings.Contains(wide, want) {
			t.Errorf("kubectl get moqrelays -o wide lacks %q:\n%s", want, wide)
		}
	}
	poll(t, "a Warning event that the relay is open to all", s.event("demo", v1alpha1.EventRelayOpen))
	streams(t, urls)
}

// endpointsOf returns the URLs of the status by transport.
func endpointsOf(t *testing.T, relay *v1alpha1.MoQRelay) map[v1alpha1.EndpointTransport]string {
	t.Helper()
	urls := map[v1alpha1.EndpointTransport]string{}
	for _, e := range relay.Status.Endpoints {
		urls[e.Transport] = e.URL
	}
	for transport, scheme := range map[v1alpha1.EndpointTransport]string{
		v1alpha1.EndpointWebTransport: "http://", v1alpha1.EndpointWebSocket: "http://", v1alpha1.EndpointQUIC: "moqt://",
	} {
		if !strings.HasPrefix(urls[transport], scheme) {
			t.Fatalf("status.endpoints has %q for %s, want %s…: %v", urls[transport], transport, scheme, relay.Status.Endpoints)
		}
	}
	return urls
}

// The stream: a group each second for half a minute, frames of 1 B to 300 KiB.
const (
	streamGroups = 30
	groupFrames  = 10
)

// streams publishes for thirty seconds with the public JavaScript client, and
// watches with it and with moq-load over all transports, each with the URL of the
// status as it stands there. Every viewer must have every frame, by its hash.
func streams(t *testing.T, urls map[v1alpha1.EndpointTransport]string) {
	web, frames := urls[v1alpha1.EndpointWebSocket], strconv.Itoa(streamGroups*groupFrames)
	publisher := startNode(t, "publish.mjs", web, "--groups", strconv.Itoa(streamGroups), "--frames", strconv.Itoa(groupFrames), "--hold", eachGroup())
	publisher.awaitLine("held 0")
	hash := fingerprint(t, web)
	viewers := []*program{
		startNode(t, "watch.mjs", web, "--frames", frames),
		startLoad(t, "sub", urls[v1alpha1.EndpointWebTransport], "--frames", frames, "--hashes"),
		startLoad(t, "sub", urls[v1alpha1.EndpointQUIC], "--certificate-sha256", hash, "--frames", frames, "--hashes"),
		startLoad(t, "sub", web, "--transport", "websocket", "--frames", frames, "--hashes"),
	}
	for _, v := range viewers {
		v.awaitLine("watching")
	}
	pace(t, publisher)
	publisher.awaitLine("published")
	for _, v := range viewers {
		v.endsWell()
		compare(t, publisher, v)
	}
	publisher.stdin.Close()
	publisher.endsWell()
}

// eachGroup is the list of frames at which a group begins, where the publisher holds.
func eachGroup() string {
	var places []string
	for g := range streamGroups {
		places = append(places, strconv.Itoa(g*groupFrames))
	}
	return strings.Join(places, ",")
}

// pace lets the publisher go on once a second.
func pace(t *testing.T, publisher *program) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for g := range streamGroups {
		publisher.awaitLine(fmt.Sprintf("held %d", g*groupFrames))
		if _, err := io.WriteString(publisher.stdin, "\n"); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
}

// compare wants the same frames on both sides.
func compare(t *testing.T, publisher, viewer *program) {
	t.Helper()
	sent, got := publisher.frames(), viewer.frames()
	if len(sent) != streamGroups*groupFrames {
		t.Errorf("%d frames were published, want %d", len(sent), streamGroups*groupFrames)
	}
	missing := 0
	for frame := range sent {
		if !got[frame] {
			missing++
		}
	}
	if missing > 0 || len(got) != len(sent) {
		t.Errorf("%s: %d frames, %d of those that were published are missing", viewer.name, len(got), missing)
	}
}

// fingerprint asks the relay for the hash of its certificate, as clients do.
func fingerprint(t *testing.T, web string) string {
	t.Helper()
	response, err := http.Get(web + "/certificate.sha256")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	hash, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("/certificate.sha256: %s, %v", response.Status, err)
	}
	return strings.TrimSpace(string(hash))
}
