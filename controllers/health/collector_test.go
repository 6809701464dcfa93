package health

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

// A world answers for pods, and notes who was asked and whose owner was told.
type world struct {
	mu      sync.Mutex
	answers map[string]status.Document // by address; others do not answer
	asked   map[string][]time.Time
	told    []Owner
	busy    int
	most    int           // the largest number of asks at once
	delay   time.Duration // of each answer
}

func (w *world) ask(ctx context.Context, address string) (status.Document, error) {
	w.mu.Lock()
	w.asked[address] = append(w.asked[address], time.Now())
	w.busy++
	w.most = max(w.most, w.busy)
	d, ok := w.answers[address]
	delay := w.delay
	w.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		ok = false
	}
	w.mu.Lock()
	w.busy--
	w.mu.Unlock()
	if !ok {
		return status.Document{}, errors.New("no answer")
	}
	return d, nil
}

func (w *world) changed(_ context.Context, owner Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, owner)
}

// set makes a pod answer so from now on.
func (w *world) set(address string, d status.Document) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[address] = d
}

// counts are how often owners were told until now, and how often the address was asked.
func (w *world) counts(address string) (told, asked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told), len(w.asked[address])
}

// running starts a collector over a world for the life of a bubble.
func running(t *testing.T, c Config) (*Collector, *world) {
	t.Helper()
	w := &world{answers: map[string]status.Document{}, asked: map[string][]time.Time{}}
	c.Ask, c.Changed = w.ask, w.changed
	collector := New(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- collector.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
	return collector, w
}

// advance lets time pass.
func advance(d time.Duration) { <-time.After(d); synctest.Wait() }

var demo = Owner{Namespace: "media", Name: "demo"}

func onePod(address string, others int) []Pod {
	return []Pod{{UID: "a", Address: address, Others: others}}
}

func TestAPodIsAskedSoonAndThenOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{})
		w.set("10.0.0.1:9090", meshDocument(1, 1))
		c.Track(demo, onePod("10.0.0.1:9090", 1))
		if r := c.Read(demo)["a"]; r.Asked() {
			t.Errorf("before any ask the reading is %+v", r)
		}
		advance(7 * time.Second)
		if r := c.Read(demo)["a"]; !r.Answered || r.Connected != 1 {
			t.Errorf("after 7 s the reading is %+v, want an answer", r)
		}
		advance(time.Hour)
		told, asked := w.counts("10.0.0.1:9090")
		if asked < 105 || asked > 135 { // one each 27 to 33 s, to the second
			t.Errorf("in an hour it was asked %d times, want about 120", asked)
		}
		if told != 1 {
			t.Errorf("its owner was told %d times, want once: nothing changed after the first answer", told)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		distances := map[time.Duration]bool{}
		for i, at := range w.asked["10.0.0.1:9090"][1:] {
			distances[at.Sub(w.asked["10.0.0.1:9090"][i])] = true
		}
		if len(distances) < 3 {
			t.Errorf("asks are %v apart, want jitter", distances)
		}
	})
}

func TestAnOwnerIsToldOfEachChangeAndOfNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{})
		const address = "10.0.0.1:9090"
		w.set(address, meshDocument(2, 2))
		c.Track(demo, onePod(address, 2))
		for _, step := range []struct {
			name string
			then status.Document
			wait time.Duration
			told int // in all
		}{
			{"the first answer", meshDocument(2, 2), time.Minute, 1},
			{"one peer gone: the count, and after a minute that it is missing", meshDocument(2, 1, "10.0.0.2:4444"), 5 * time.Minute, 3},
			{"it stays gone", meshDocument(2, 1, "10.0.0.2:4444"), time.Hour, 3},
			{"it is back", meshDocument(2, 2), 5 * time.Minute, 4},
			{"and stays", meshDocument(2, 2), time.Hour, 4},
		} {
			w.set(address, step.then)
			advance(step.wait)
			if told, _ := w.counts(address); told != step.told {
				t.Errorf("%s: the owner was told %d times in all, want %d", step.name, told, step.told)
			}
		}
		w.mu.Lock()
		delete(w.answers, address)
		w.mu.Unlock()
		advance(time.Hour)
		if told, _ := w.counts(address); told != 5 || !c.Read(demo)["a"].Unreachable {
			t.Errorf("told %d times, reading %+v; want 5 and unreachable", told, c.Read(demo)["a"])
		}
	})
}

func TestAPodThatIsNotTrackedAnyMoreIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{})
		const address = "10.0.0.1:9090"
		w.set(address, meshDocument(1, 1))
		c.Track(demo, onePod(address, 1))
		advance(time.Minute)
		c.Track(demo, nil)
		_, before := w.counts(address)
		advance(time.Hour)
		if _, asked := w.counts(address); asked != before || len(c.Read(demo)) != 0 {
			t.Errorf("it was asked %d times more, and %v is remembered", asked-before, c.Read(demo))
		}
	})
}

func TestTrackingAgainForgetsNothingAndAsksNoSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{})
		const address = "10.0.0.1:9090"
		w.set(address, meshDocument(1, 1))
		for range 600 { // a pass a second, for ten minutes
			c.Track(demo, onePod(address, 1))
			advance(time.Second)
		}
		if _, asked := w.counts(address); asked < 17 || asked > 24 {
			t.Errorf("in ten minutes it was asked %d times, want about 20", asked)
		}
		if !c.Read(demo)["a"].Answered {
			t.Error("what it said is forgotten")
		}
		c.Track(demo, onePod("10.0.0.9:9090", 1))
		if c.Read(demo)["a"].Asked() {
			t.Error("a pod with another address keeps what the old one said")
		}
	})
}

func TestNoMoreThanTheWorkersAskAtOnceAndSilentPodsHoldNobodyUpForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{Workers: 4, Timeout: 2 * time.Second})
		w.delay = time.Hour // nobody answers in time
		var pods []Pod
		for i := range 40 {
			pods = append(pods, Pod{UID: strconv.Itoa(i), Address: "10.0.0." + strconv.Itoa(i) + ":9090"})
		}
		c.Track(demo, pods)
		advance(3 * time.Minute)
		w.mu.Lock()
		most := w.most
		w.mu.Unlock()
		if most != 4 {
			t.Errorf("%d asks ran at once, want 4", most)
		}
		readings := c.Read(demo)
		for uid, r := range readings {
			if !r.Unreachable {
				t.Errorf("pod %s is %+v after three minutes, want unreachable", uid, r)
			}
		}
	})
}

func TestOwnersAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := running(t, Config{})
		other := Owner{Namespace: "media", Name: "other"}
		w.set("10.0.0.1:9090", meshDocument(1, 1))
		w.set("10.0.0.2:9090", meshDocument(3, 3))
		c.Track(demo, onePod("10.0.0.1:9090", 1))
		c.Track(other, []Pod{{UID: "b", Address: "10.0.0.2:9090"}})
		advance(time.Minute)
		w.mu.Lock()
		told := slices.Clone(w.told)
		w.mu.Unlock()
		if len(told) != 2 || !slices.Contains(told, demo) || !slices.Contains(told, other) {
			t.Errorf("told %v, want each owner once", told)
		}
		if c.Read(demo)["a"].Expected != 1 || c.Read(other)["b"].Expected != 3 || len(c.Read(other)) != 1 {
			t.Errorf("readings are %v and %v", c.Read(demo), c.Read(other))
		}
	})
}
