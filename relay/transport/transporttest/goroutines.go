package transporttest

import (
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"
)

// testGoroutines uses a pair in a subtest, with calls left blocked, and wants
// the goroutines after it to be those from before it.
func testGoroutines(t *testing.T, newPair NewPair) {
	before := goroutines()
	t.Run("use", func(t *testing.T) {
		p := connect(t, newPair, roomy())
		ours, theirs := p.stream(p.Client, p.Server)
		start(func() (int, error) { return ours.Write(pattern(4 << 20)) })
		start(func() (int, error) { return ours.Read(make([]byte, 1)) })
		start(func() (int, error) { _, err := p.Client.AcceptReceiveStream(p.ctx); return 0, err })
		p.wantRead(theirs, pattern(1000))
		p.carry(p.Server, p.Client, 100_000)
		p.Client.Close(0, "done")
		p.wait("Done at the server", p.Server.Done())
	})

	deadline := time.NewTimer(failsafe)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		left := goroutines()
		maps.DeleteFunc(left, func(id, _ string) bool { _, ok := before[id]; return ok })
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			for _, stack := range left {
				t.Errorf("left behind:\n%s", stack)
			}
			return
		}
	}
}

// goroutines returns the stacks of all goroutines by their id.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	stacks := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
		stacks[id] = stack
	}
	return stacks
}
