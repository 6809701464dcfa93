//go:build interop

package interop

import (
	"fmt"
	"regexp"
	"testing"
)

// tick is a line that shows a tick of the clock.
var tick = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  latency \d+(\.\d)? ms`)

// awaitTicks waits until a viewer has shown so many ticks.
func (p *process) awaitTicks(n int) {
	p.t.Helper()
	p.await(fmt.Sprintf("tick %d", n), func(p *process) bool {
		shown := 0
		for _, line := range p.lines {
			if tick.MatchString(line) {
				shown++
			}
		}
		return shown >= n
	})
}

// These are the programs that the demo runs.
func TestTheClockIsShownByBothClientsWhoeverPublishesIt(t *testing.T) {
	for name, publish := range map[string]func(t *testing.T, url string) *process{
		"JavaScript": func(t *testing.T, url string) *process { return node(t, "clock.mjs", "publish", url, "--rate", "5") },
		"Go":         func(t *testing.T, url string) *process { return moqLoad(t, "clock", url, "--rate", "5") },
	} {
		t.Run(name, func(t *testing.T) {
			url := "http://" + startRelay(t).clients
			publish(t, url)
			script := node(t, "clock.mjs", "watch", url, "--ticks", "8")
			ours := moqLoad(t, "sub", url, "--transport", "quic", "--broadcast", "clock", "--track", "seconds", "--print", "--frames", "8")
			script.awaitTicks(8)
			ours.awaitTicks(8)
			script.wantSuccess()
			ours.wantSuccess()
		})
	}
}
