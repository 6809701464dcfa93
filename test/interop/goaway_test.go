//go:build interop

package interop

import (
	"net/http"
	"testing"
)

// The JavaScript client takes note of GOAWAY and goes on: the relay must let it.
func TestJavaScriptClientsThatAreToldToGoAwayGetEveryByteFirst(t *testing.T) {
	for _, version := range []string{"moq-lite-04", "moq-lite-05", "moq-lite-06-wip"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := startRelay(t, "--protocols", "moq-lite-06,moq-lite-06-wip,moq-lite-05,moq-lite-04",
				"--drain-timeout-seconds", "600", "--drain-goaway-spread-seconds", "0")
			url, protocol := "ws://"+r.clients, "qmux-02."+version
			publisher := node(t, "publish.mjs", url, "--protocol", protocol, "--hold", "1")
			viewer := node(t, "watch.mjs", url, "--protocol", protocol)
			viewer.awaitFrame(1, 0, 0)

			answer, err := http.Post("http://"+r.status+"/drain", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusAccepted {
				t.Fatalf("POST /drain is answered with %s", answer.Status)
			}
			for _, client := range []*process{publisher, viewer} {
				client.awaitLine("received goaway:")
			}
			publisher.tell("go")
			viewer.wantSuccess()
			publisher.wantSuccess()
			wantPublished(t, publisher.seen(0))
			wantSame(t, "the viewer", viewer.seen(0), publisher.seen(0))
			r.wantExit(0) // all have left
		})
	}
}
