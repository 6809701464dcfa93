package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// rankedStream is a stream that notes its priority.
type rankedStream struct {
	transport.SendStream
	transport.Priority
	told int
}

func (s *rankedStream) SetPriority(p transport.Priority) { s.Priority, s.told = p, s.told+1 }

// urgencies are those of the streams, in the order given.
func urgencies(streams ...*rankedStream) string {
	var b strings.Builder
	for _, s := range streams {
		fmt.Fprintf(&b, "%d", s.Urgency)
	}
	return b.String()
}

// open opens the streams of some groups, which are returned in the order given.
func open(q *Queue, groups ...uint64) (streams []*rankedStream, ranks []*Ranked) {
	for _, g := range groups {
		s := &rankedStream{}
		streams, ranks = append(streams, s), append(ranks, q.Open(g, s))
	}
	return streams, ranks
}

func TestTheNewestOpenGroupOfATrackGoesFirstUnlessOrdered(t *testing.T) {
	rows := []struct {
		ordered bool
		want    string // of groups 7, 9, 8
	}{{false, "312"}, {true, "132"}}
	for _, row := range rows {
		q := NewRanks().Queue(Key{Ordered: row.ordered})
		streams, ranks := open(q, 7, 9, 8)
		if got := urgencies(streams...); got != row.want {
			t.Errorf("ordered %v: urgencies are %s, want %s", row.ordered, got, row.want)
		}
		ranks[1].Close()
		if got, want := urgencies(streams[0], streams[2]), map[bool]string{false: "21", true: "12"}[row.ordered]; got != want {
			t.Errorf("ordered %v, group 9 gone: urgencies are %s, want %s", row.ordered, got, want)
		}
		for _, s := range streams {
			if !s.Incremental {
				t.Error("a data stream does not take turns")
			}
		}
	}
}

func TestTheNewestGroupsOfEqualTracksShareARankWhateverTheirNumbers(t *testing.T) {
	r := NewRanks()
	few, many := r.Queue(Key{Subscriber: 5}), r.Queue(Key{Subscriber: 5})
	a, _ := open(few, 1, 2)
	b, _ := open(many, 1000, 1001, 1002)
	if got := urgencies(append(a, b...)...); got != "21321" {
		t.Fatalf("urgencies are %s, want 21 and 321", got)
	}
}

func TestSubscriberThenPublisherThenGroupThenFetchDecide(t *testing.T) {
	r := NewRanks()
	rows := []struct {
		key    Key
		groups []uint64
		want   string
	}{
		{Key{Subscriber: 1, Publisher: 255}, []uint64{1}, "6"},
		{Key{Subscriber: 2, Fetch: true, Publisher: 9}, []uint64{99}, "4"},
		{Key{Subscriber: 2, Publisher: 9}, []uint64{4, 5}, "32"},
		{Key{Subscriber: 2, Publisher: 3}, []uint64{77}, "5"},
		{Key{Subscriber: 200}, []uint64{1}, "1"},
		{Key{Subscriber: 0, Publisher: 8}, []uint64{1, 2}, "77"},
		{Key{Subscriber: 0, Publisher: 7}, []uint64{1}, "7"},
	}
	opened := make([][]*rankedStream, len(rows))
	for i, row := range rows {
		opened[i], _ = open(r.Queue(row.key), row.groups...)
	}
	for i, row := range rows {
		if got := urgencies(opened[i]...); got != row.want {
			t.Errorf("%+v has urgencies %s, want %s", row.key, got, row.want)
		}
	}
}

func TestTheSixBestRanksHaveAnUrgencyOfTheirOwn(t *testing.T) {
	streams, ranks := open(NewRanks().Queue(Key{}), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	if got := urgencies(streams...); got != "7777654321" {
		t.Fatalf("urgencies are %s, want 7777654321", got)
	}
	for _, s := range streams {
		s.told = 0
	}
	ranks[6].Close() // of urgency 4: those behind move up, as far as there is a place
	if got := urgencies(streams...); got != "7776544321" {
		t.Fatalf("urgencies are %s, want 7776544321", got)
	}
	for i, want := range []int{0, 0, 0, 1, 1, 1, 0, 0, 0, 0} {
		if streams[i].told != want {
			t.Errorf("the stream of group %d was told %d times, want %d", i, streams[i].told, want)
		}
	}
}

func TestAnUpdateMovesTheStreamsThatAreOpen(t *testing.T) {
	r := NewRanks()
	low, high := r.Queue(Key{Subscriber: 1}), r.Queue(Key{Subscriber: 2})
	a, _ := open(low, 1, 2)
	b, _ := open(high, 1)
	idle, _ := open(r.Queue(Key{}), 1)
	if got := urgencies(append(append(a, b...), idle...)...); got != "3214" {
		t.Fatalf("urgencies are %s, want 32, 1 and 4", got)
	}
	idle[0].told = 0
	low.Update(Key{Subscriber: 3})
	if got := urgencies(append(a, b...)...); got != "213" {
		t.Fatalf("after the update urgencies are %s, want 21 and 3", got)
	}
	low.Update(Key{Subscriber: 3, Ordered: true})
	if got := urgencies(append(a, b...)...); got != "123" {
		t.Fatalf("ordered, urgencies are %s, want 12 and 3", got)
	}
	if idle[0].told != 0 {
		t.Errorf("a stream whose rank is the same was told %d times", idle[0].told)
	}
	low.Update(Key{})
	if got := urgencies(append(append(a, b...), idle...)...); got != "3212" {
		t.Fatalf("back, urgencies are %s, want 32, 1 and 2", got)
	}
}

func TestAStreamIsToldBeforeItsFirstByte(t *testing.T) {
	r := NewRanks()
	for n := range 20 {
		s := &rankedStream{}
		r.Queue(Key{Subscriber: uint8(255 - n)}).Open(0, s)
		if s.told != 1 || int(s.Urgency) != min(n+1, 7) {
			t.Fatalf("stream %d was told %d times, urgency %d", n, s.told, s.Urgency)
		}
	}
}

// TestRanksAreThoseOfASortedList compares with the rule in its plainest form.
func TestRanksAreThoseOfASortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := NewRanks()
	queues := make([]*Queue, 8)
	keys := make([]Key, len(queues))
	open := make([]map[uint64]*Ranked, len(queues))
	randomKey := func() Key {
		return Key{
			Subscriber: uint8(random.IntN(3)), Publisher: uint8(random.IntN(2)),
			Fetch: random.IntN(4) == 0, Ordered: random.IntN(3) == 0,
		}
	}
	for i := range queues {
		keys[i] = randomKey()
		queues[i], open[i] = r.Queue(keys[i]), map[uint64]*Ranked{}
	}
	for step := range 5000 {
		i := random.IntN(len(queues))
		group := random.Uint64N(12)
		x := open[i][group]
		switch {
		case random.IntN(10) == 0:
			keys[i] = randomKey()
			queues[i].Update(keys[i])
		case x != nil:
			x.Close()
			delete(open[i], group)
		default:
			open[i][group] = queues[i].Open(group, &rankedStream{})
		}
		wantSorted(t, step, keys, open)
	}
}

// place is a stream's rank in the plainest form.
type place struct {
	key   Key
	place int
	ofAll *rankedStream
}

func (p place) compare(o place) int {
	if c := p.key.compare(o.key); c != 0 {
		return c
	}
	return p.place - o.place
}

func wantSorted(t *testing.T, step int, keys []Key, open []map[uint64]*Ranked) {
	t.Helper()
	var all []place
	for i, groups := range open {
		for group, x := range groups {
			p := place{key: keys[i], ofAll: x.stream.(*rankedStream)}
			for other := range groups {
				if keys[i].Ordered && other < group || !keys[i].Ordered && other > group {
					p.place++
				}
			}
			all = append(all, p)
		}
	}
	slices.SortFunc(all, place.compare)
	want := 0
	for i, p := range all {
		if i == 0 || all[i-1].compare(p) != 0 {
			want = min(want+1, 7)
		}
		if int(p.ofAll.Urgency) != want {
			t.Fatalf("step %d: %+v, place %d, has urgency %d, want %d", step, p.key, p.place, p.ofAll.Urgency, want)
		}
	}
}

// BenchmarkRanks opens and closes one more stream where 1,024 are open.
func BenchmarkRanks(b *testing.B) {
	for _, queues := range []int{1, 32, 1024} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			r := NewRanks()
			var q *Queue
			for range queues {
				q = r.Queue(Key{})
				for g := range uint64(1024 / queues) {
					q.Open(g, &rankedStream{})
				}
			}
			s := &rankedStream{}
			b.ReportAllocs()
			for b.Loop() {
				q.Open(5000, s).Close()
			}
		})
	}
}
