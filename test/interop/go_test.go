//go:build interop

package interop

import (
	"fmt"
	"testing"
)

// way is a transport and a version of moq-load.
type way struct{ transport, version string }

var ways = []way{
	{"quic", "moq-lite-06"},
	{"webtransport", "moq-lite-05"},
	{"quic", "moq-lite-05"},
	{"webtransport", "moq-lite-06"},
	{"websocket", "moq-lite-04"},
}

// args are those of moq-load for a relay.
func (w way) args(command string, r *relay, more ...string) []string {
	return append([]string{command, "http://" + r.clients, "--transport", w.transport, "--version", w.version, "--hashes"}, more...)
}

func TestEveryByteArrivesBetweenOurOwnClientsOnAnyTwoTransportsAndVersions(t *testing.T) {
	r := startRelay(t)
	for _, from := range ways {
		t.Run("from "+from.transport+" "+from.version, func(t *testing.T) {
			name := "from/" + from.transport + "/" + from.version
			publisher := moqLoad(t, from.args("pub", r, "--broadcast", name, "--groups", "20", "--frames", "10",
				"--size", "1..300Ki", "--rate", "0", "--wait", "--hold-after", "1")...)
			var viewers []*process
			for _, to := range ways {
				viewers = append(viewers, moqLoad(t, to.args("sub", r, "--broadcast", name)...))
			}
			for _, viewer := range viewers {
				viewer.awaitFrame(1, 0, 0)
			}
			publisher.tell("go")
			publisher.wantSuccess()
			sent := publisher.seen(0)
			wantPublished(t, sent)
			for i, viewer := range viewers {
				viewer.wantSuccess() // the track has ended
				wantSame(t, fmt.Sprint("viewer on ", ways[i]), viewer.seen(0), sent)
			}
		})
	}
}
