package model

import (
	"testing"
	"testing/synctest"
)

// The answer to the others begins between the look at what is held and the one at
// what is asked for.
func TestAnAnswerThatBeginsWhileAnotherLooksIsNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, l := newFetchable()
		first := wantFetch(t, o, FetchOptions{Group: 5})
		wait := reading(t, first)
		wantAsked(t, l, 1)
		second := wantFetch(t, o, FetchOptions{Group: 5})
		live, _, _, err := second.resolve()
		if err != nil {
			t.Fatal(err)
		}
		if r, err := second.held(live); r != nil || err != nil {
			t.Fatalf("the group is held before it has begun (%v)", err)
		}
		w := begun(t, <-l.asked, "abc")
		r, _, fresh := second.join()
		if fresh != nil || r == nil {
			t.Fatal("the group is asked for again")
		}
		wantFinished(t, w)
		wantPayloads(t, r, "a", "b", "c")
		r.Close()
		second.Close()
		got := <-wait
		if got.err != nil {
			t.Fatal(got.err)
		}
		wantPayloads(t, got.r, "a", "b", "c")
		got.r.Close()
		first.Close()
		withdrawAll(o)
		wantHeld(t, o, 0)
	})
}
