package lite

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/wire/lite"
)

func TestTheFirstGroupsOfABurstAreKeptInTheOrderOfTheirStreams(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		sub.Update(model.Options{MaxLatency: time.Minute})
		synctest.Wait()
		// The first stream is there before the second, its bytes come after.
		s.run(`
			open uni g
			g write 00
			wait 1ms
			open uni h
			h write ` + oneGroup(v, "01") + `
			h fin
			wait 50ms
			g write ` + oneGroup(v, "00")[4:] + `
			g fin
		`)
		got := map[uint64]bool{}
		for range 2 {
			r := next(t, sub)
			got[r.Sequence()] = true
			r.Close()
		}
		if !got[0] || !got[1] {
			t.Fatalf("groups are %v, want 0 and 1", got)
		}
	}, versions...)
}

func TestAStreamThatSaysNothingHoldsTheFirstGroupForATenthOfASecond(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := server(t, v)
		sub := s.upstream(t, v)
		defer sub.Close()
		s.run(`
			open uni g
			g write 00
			wait 1ms
			open uni h
			h write ` + oneGroup(v, "01") + `
		`)
		began := time.Now()
		next(t, sub).Close()
		if d := time.Since(began); d > firstGroupWait {
			t.Fatalf("group 1 came after %v, want at most %v", d, firstGroupWait)
		}
		s.run("open uni i\n i write " + oneGroup(v, "02"))
		began = time.Now()
		next(t, sub).Close()
		if d := time.Since(began); d != 0 {
			t.Fatalf("group 2 came after %v, want at once", d)
		}
	}, versions...)
}
