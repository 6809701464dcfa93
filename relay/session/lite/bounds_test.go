package lite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// A publisher may say of any range of groups, any number of times, that it will
// not come. What is remembered of that has a bound.
func TestWhatWasSeenOfGroupsIsKeptAsFewRuns(t *testing.T) {
	p := &pull{all: make(chan struct{})}
	p.sawDrop(1, 1<<61)
	p.sawDrop(5, 900)
	if want := []run{{1, 1<<61 + 1}}; !slices.Equal(p.seen, want) {
		t.Fatalf("seen are %v, want %v", p.seen, want)
	}
	p.sawGroup(0)
	if len(p.seen) != 0 || p.first != 1<<61+1 {
		t.Fatalf("the first gap is at %d with %v behind it, want %d and nothing", p.first, p.seen, uint64(1<<61+1))
	}

	p = &pull{all: make(chan struct{})}
	p.sawDrop(9, 3) // makes no sense
	for i := range uint64(100_000) {
		p.sawDrop(2*i+1, 2*i+1)
	}
	if n := len(p.seen); n > rememberedRuns {
		t.Fatalf("%d runs are remembered of 100,000 drops, want at most %d", n, rememberedRuns)
	}
	p.sawEnd(200_000)
	select {
	case <-p.all:
		t.Fatal("nothing is waited for while even groups are missing")
	default:
	}
	for i := range uint64(100_000) {
		p.sawGroup(2 * i)
	}
	select {
	case <-p.all:
	default:
		t.Fatalf("the gap at %d is waited for though everything was seen", p.first)
	}
}

func TestRunsThatTouchBecomeOne(t *testing.T) {
	for _, row := range []struct {
		ranges [][2]uint64 // inclusive
		want   []run
		first  uint64
	}{
		{[][2]uint64{{5, 6}, {9, 9}, {7, 8}}, []run{{5, 10}}, 0},
		{[][2]uint64{{9, 9}, {5, 5}, {7, 7}}, []run{{5, 6}, {7, 8}, {9, 10}}, 0},
		{[][2]uint64{{9, 9}, {5, 5}, {4, 20}}, []run{{4, 21}}, 0},
		{[][2]uint64{{2, 3}, {0, 1}}, nil, 4},
		{[][2]uint64{{0, 3}, {1, 2}, {8, 8}}, []run{{8, 9}}, 4},
	} {
		p := &pull{all: make(chan struct{})}
		for _, r := range row.ranges {
			p.sawDrop(r[0], r[1])
		}
		if !slices.Equal(p.seen, row.want) || p.first != row.first {
			t.Errorf("after %v seen are %v above %d, want %v above %d", row.ranges, p.seen, p.first, row.want, row.first)
		}
	}
}

// Announcements that are not used cost nothing once there are many.
func TestAnnouncementsWithoutEndAreForgotten(t *testing.T) {
	for _, v := range []lite.Version{lite.Lite04, lite.Lite05, lite.Lite06} {
		client, server := transport.Pipe(transport.PipeConfig{Protocol: v.String()})
		s := New(server, v, Config{Origin: newOrigin(1), Limits: session.Limits{Announcements: 10}})
		if err := s.authorize(""); err != nil {
			t.Fatal(err)
		}
		l := &listener{s: s, byID: make(map[uint64]*hearing), byPath: make(map[string]*hearing)}
		const many = 1000
		for i := range many {
			if err := l.apply(&lite.Announce{Kind: lite.AnnounceStart, Suffix: fmt.Sprint("room/", i)}, false); err != nil {
				t.Fatalf("%s: announcement %d: %v", v, i, err)
			}
		}
		if len(l.byID) > 20 || len(l.byPath) != 20 || s.heard.count() != 10 {
			t.Errorf("%s: %d and %d are kept and %d used of %d, want 20 and 10", v, len(l.byID), len(l.byPath), s.heard.count(), many)
		}
		for i := range many { // those that were forgotten end too, and the session goes on
			if err := l.apply(&lite.Announce{Kind: lite.AnnounceEnd, ID: uint64(i), Suffix: fmt.Sprint("room/", i)}, false); err != nil {
				t.Fatalf("%s: end of %d: %v", v, i, err)
			}
		}
		if len(l.byID) != 0 || len(l.byPath) != 0 || s.heard.count() != 0 {
			t.Errorf("%s: %d and %d are kept and %d used after all have ended", v, len(l.byID), len(l.byPath), s.heard.count())
		}
		if v.HasAnnounceIDs() && l.apply(&lite.Announce{Kind: lite.AnnounceEnd, ID: many}, false) == nil {
			t.Errorf("%s: the end of an announcement that never was is no fault", v)
		}
		client.Close(0, "")
	}
}

func TestARetractionThatIsNotWrittenIsKeptOnce(t *testing.T) {
	a := newAnnouncer(&Session{version: lite.Lite04}, nil, "", 0, true)
	for i := range 1000 {
		a.retract(model.Path(fmt.Sprint("room/", i%3)))
	}
	paths, _ := a.pause(t.Context())
	if want := []model.Path{"room/0", "room/1", "room/2"}; !slices.Equal(paths, want) {
		t.Errorf("%v are to be retracted, want %v", paths, want)
	}
	again, _ := a.pause(t.Context())
	if len(again) != 0 {
		t.Errorf("%v are to be retracted again", again)
	}
	a.interrupt()
}
