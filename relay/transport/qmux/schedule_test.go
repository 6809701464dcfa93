package qmux

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// turns takes n turns of a schedule in which every stream always has data, and
// returns the ids.
func turns(q *schedule, n int) (ids []uint64) {
	for range n {
		s := q.pop()
		ids = append(ids, s.id)
		q.push(s)
	}
	return ids
}

func newStreamOf(id uint64, urgency uint8, incremental bool) *stream {
	return &stream{id: id, priority: transport.Priority{Urgency: urgency, Incremental: incremental}}
}

func TestTurnsGoByUrgencyThenRoundOrInOrder(t *testing.T) {
	for _, row := range []struct {
		name    string
		streams []*stream
		want    []uint64
	}{
		{"equals take turns", []*stream{newStreamOf(4, 3, true), newStreamOf(0, 3, true)}, []uint64{4, 0, 4, 0, 4}},
		{"the others in the order of opening", []*stream{newStreamOf(8, 3, false), newStreamOf(0, 3, false), newStreamOf(4, 3, false)}, []uint64{0, 0, 0, 0, 0}},
		{"the urgent one alone", []*stream{newStreamOf(0, 1, true), newStreamOf(4, 0, true), newStreamOf(8, 7, false)}, []uint64{4, 4, 4, 4, 4}},
		{"both kinds alternate", []*stream{newStreamOf(0, 2, true), newStreamOf(4, 2, false), newStreamOf(8, 2, true)}, []uint64{0, 4, 8, 4, 0}},
	} {
		var q schedule
		for _, s := range row.streams {
			q.push(s)
		}
		if got := turns(&q, len(row.want)); !slices.Equal(got, row.want) {
			t.Errorf("%s: turns are %d, want %d", row.name, got, row.want)
		}
	}
}

// TestNoStreamIsLostWhateverChanges pushes, pops, and removes at random, and counts.
func TestNoStreamIsLostWhateverChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q schedule
	in := map[*stream]bool{}
	var out []*stream
	for id := range uint64(40) {
		out = append(out, newStreamOf(id, uint8(rng.IntN(8)), rng.IntN(2) == 0))
	}
	for range 20_000 {
		switch {
		case len(out) > 0 && rng.IntN(2) == 0:
			i := rng.IntN(len(out))
			s := out[i]
			out = slices.Delete(out, i, i+1)
			s.priority = transport.Priority{Urgency: uint8(rng.IntN(8)), Incremental: rng.IntN(2) == 0}
			q.push(s)
			in[s] = true
		case len(in) > 0 && rng.IntN(2) == 0:
			s := q.pop()
			for o := range in {
				if o.priority.Urgency < s.priority.Urgency {
					t.Fatalf("a stream of urgency %d came before one of %d", s.priority.Urgency, o.priority.Urgency)
				}
			}
			delete(in, s)
			out = append(out, s)
		case len(in) > 0:
			for s := range in {
				q.remove(s)
				delete(in, s)
				out = append(out, s)
				break
			}
		}
		if q.len() != len(in) {
			t.Fatalf("%d streams are in the schedule, want %d", q.len(), len(in))
		}
	}
}

func TestAScheduleAllocatesNothingPerTurnAndChange(t *testing.T) {
	var q schedule
	streams := []*stream{newStreamOf(0, 3, true), newStreamOf(4, 3, false), newStreamOf(8, 3, true)}
	for _, s := range streams {
		q.push(s)
	}
	n := uint8(0)
	change := func() {
		s := q.pop()
		s.priority.Urgency, s.priority.Incremental = n%8, n%3 == 0
		q.push(s)
		q.remove(streams[0])
		q.push(streams[0])
		n++
	}
	for range 100 {
		change() // the queues grow to their size
	}
	if allocs := testing.AllocsPerRun(1000, change); allocs != 0 {
		t.Errorf("%v allocations per turn, want 0", allocs)
	}
}
