package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told returns what a watcher tells within d, the first batch of it, with the time
// since the call and the warm costs: "+100ms +room[1 2]:3".
func told(t *testing.T, w *Watcher, d time.Duration) string {
	t.Helper()
	asked := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	changes, err := w.Next(ctx)
	if err != nil {
		return "nothing"
	}
	var text []string
	for _, c := range changes {
		text = append(text, fmt.Sprintf("%s%s%v:%d", [...]string{"+", "~", "-"}[c.Kind], c.Path, c.Route.Hops, c.Route.Warm))
	}
	return time.Since(asked).String() + " " + strings.Join(text, " ")
}

func wantTold(t *testing.T, w *Watcher, want string) {
	t.Helper()
	if got := told(t, w, 10*time.Second); got != want {
		t.Fatalf("the watcher tells %q, want %q", got, want)
	}
}

func TestOnlyWorseNewsIsHeldBack(t *testing.T) {
	before := Route{Path: "room", Hops: []uint64{7, 1}, Epoch: epoch2, Warm: 5, Cold: 5}
	for _, c := range []struct {
		name string
		now  func(r *Route)
		want string
	}{
		{"dearer", func(r *Route) { r.Warm = 6 }, "100ms ~room[7 1]:6"},
		{"dearer when nobody carries it", func(r *Route) { r.Cold = 6 }, "100ms ~room[7 1]:5"},
		{"longer", func(r *Route) { r.Hops = []uint64{7, 2, 1} }, "100ms ~room[7 2 1]:5"},
		{"as good", func(r *Route) { r.Hops = []uint64{7, 2} }, "100ms ~room[7 2]:5"},
		{"by an unknown hop", func(r *Route) { r.Hops = []uint64{0, 1} }, "100ms ~room[0 1]:5"},
		{"of an older publisher", func(r *Route) { r.Epoch = epoch1 }, "100ms ~room[7 1]:5"},
		{"at the highest cost", func(r *Route) { r.Warm = MaxCost }, fmt.Sprintf("0s ~room[7 1]:%d", MaxCost)},
		{"cheaper", func(r *Route) { r.Warm = 4 }, "0s ~room[7 1]:4"},
		{"shorter", func(r *Route) { r.Hops = []uint64{1} }, "0s ~room[1]:5"},
		{"of a newer publisher, and dearer", func(r *Route) { r.Epoch, r.Warm = highest, 9 }, "0s ~room[7 1]:9"},
		{"the same again", func(*Route) {}, "nothing"},
		{"over", nil, "0s -room[]:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				w := o.Watch("", Peer{})
				first := before
				first.Source = newPublisher()
				a := o.Announce(first)
				wantTold(t, w, "0s +room[7 1]:5")
				if c.now != nil {
					now := before
					now.Source = newPublisher()
					c.now(&now)
					o.Announce(now)
				}
				a.Leave()
				wantTold(t, w, c.want)
				if w.queue != nil || len(w.held) != 0 {
					t.Error("something is still held")
				}
			})
		})
	}
}

func TestAHoldEndsOnceAndTellsWhatIsThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := chained(o, 7, 1)
		other := o.Announce(Route{Path: "hall", Hops: via(7), Source: newPublisher()})
		wantTold(t, w, "0s +hall[7 1000]:0 +room[7 1]:0")

		a.Update([]uint64{7, 2, 1}, 1, 1)
		if got := told(t, w, 60*time.Millisecond); got != "nothing" {
			t.Fatalf("within 60 ms %s was told", got)
		}
		a.Update([]uint64{7, 3, 2, 1}, 2, 2) // still worse: the hold does not begin anew
		wantTold(t, w, "40ms ~room[7 3 2 1]:2")

		a.Update([]uint64{7, 4, 3, 2, 1}, 3, 3)
		advance(50 * time.Millisecond)
		a.Update([]uint64{7, 3, 2, 1}, 2, 2) // as it was: nobody has to know
		if got := told(t, w, time.Second); got != "nothing" {
			t.Fatalf("%s was told of what is as it was", got)
		}

		a.Update([]uint64{7, 1}, 9, 9)
		other.Update(via(7), 1, 1)
		told(t, w, 30*time.Millisecond)
		a.Update([]uint64{7, 1}, 1, 1) // better: at once, and alone
		wantTold(t, w, "0s ~room[7 1]:1")
		wantTold(t, w, "70ms ~hall[7 1000]:1")

		a.Update([]uint64{7, 2, 1}, 9, 9)
		told(t, w, 10*time.Millisecond)
		a.Withdraw() // over: at once
		wantTold(t, w, "0s -room[]:0")
		a = chained(o, 7, 1)
		wantTold(t, w, "0s +room[7 1]:0")
		if got := told(t, w, time.Second); got != "nothing" {
			t.Fatalf("%s was told by the hold of a route that is over", got)
		}
		other.Withdraw()
		a.Withdraw()
	})
}

// A watcher that is slow to look is told what was held as soon as it looks.
func TestAWatcherThatLooksLateIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		a := chained(o, 7, 1)
		wantTold(t, w, "0s +room[7 1]:0")
		a.Update([]uint64{7, 1}, 1, 1)
		told(t, w, time.Millisecond)
		advance(time.Second)
		wantTold(t, w, "0s ~room[7 1]:1")
		a.Withdraw()
	})
}

// Whatever happens, what a watcher was told last is in the end what there is, and
// each thing is told at most once.
func TestNothingThatIsHeldIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		w := o.Watch("", Peer{})
		last := make(map[Path]Route)
		var taker sync.WaitGroup
		taker.Go(func() {
			for {
				changes, err := w.Next(t.Context())
				if err != nil {
					return
				}
				for _, c := range changes {
					before, known := last[c.Path]
					if known != (c.Kind != Started) || known && before.Cold == c.Route.Cold { // every change has its own
						t.Errorf("%s was told as %v, and now %v of kind %v", c.Path, before, c.Route, c.Kind)
					}
					if last[c.Path] = c.Route; c.Kind == Ended {
						delete(last, c.Path)
					}
				}
			}
		})
		random := rand.New(rand.NewPCG(1, 2))
		routes := make(map[int]*Announcement)
		for i := range uint64(5000) {
			k := random.IntN(12)
			hops := append([]uint64{uint64(k + 1)}, []uint64{2, 3, 4}[:random.IntN(4)]...)
			warm := random.Uint64N(5)
			switch a := routes[k]; {
			case a == nil:
				routes[k] = o.Announce(Route{Path: Path(fmt.Sprint("room", k%4)), Hops: hops, Warm: warm, Cold: i + 1, Epoch: epoch1, Source: newPublisher()})
			case random.IntN(5) == 0:
				a.Leave()
				delete(routes, k)
			default:
				a.Update(hops, warm, i+1)
			}
			if random.IntN(4) == 0 {
				advance(time.Duration(random.IntN(60)) * time.Millisecond)
			}
		}
		advance(holdDown)
		synctest.Wait()
		for path := range last {
			if best := o.bestLocked(o.findLocked(path), Peer{}); best.route.Cold != last[path].Cold {
				t.Errorf("%s was last told as %v, and is %v", path, last[path], best.route)
			}
		}
		if n := o.Stats().Broadcasts.Load(); n != int64(len(last)) || len(w.held) != 0 {
			t.Errorf("%d paths are known to the watcher, %d are there, %d are held", len(last), n, len(w.held))
		}
		withdrawAll(o)
		synctest.Wait()
		if len(last) != 0 {
			t.Errorf("%d paths were never ended", len(last))
		}
		w.Close()
		taker.Wait()
	})
}
