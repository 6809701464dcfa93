package model

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPathsAreNormalisedOrRefused(t *testing.T) {
	deep := strings.Repeat("a/", 32)
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"/", ""}, {"room", "room"}, {"//room//a/", "room/a"}, {deep, strings.TrimSuffix(deep, "/")},
	} {
		if got, err := ParsePath(c.in); err != nil || string(got) != c.want {
			t.Errorf("%q is read as %q (%v), want %q", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{"a/../b", ".", "a\x00b", "a\xffb", deep + "a/b", strings.Repeat("x", 1025)} {
		if got, err := ParsePath(in); err == nil {
			t.Errorf("%.20q is read as %.20q, want an error", in, got)
		}
	}
}

func TestPrefixesMatchByWholeSegments(t *testing.T) {
	for _, c := range []struct {
		path, prefix Path
		has          bool
		rest         Path
	}{
		{"foo/bar", "foo", true, "bar"},
		{"foo", "foo", true, ""},
		{"foobar", "foo", false, "foobar"},
		{"foo", "", true, "foo"},
		{"foo", "foo/bar", false, "foo"},
	} {
		if got := c.path.HasPrefix(c.prefix); got != c.has {
			t.Errorf("%q has prefix %q: %v, want %v", c.path, c.prefix, got, c.has)
		}
		if got := c.path.Strip(c.prefix); got != c.rest {
			t.Errorf("%q without %q is %q, want %q", c.path, c.prefix, got, c.rest)
		}
	}
	if _, err := Path(strings.Repeat("a/", 20) + "a").Join(Path(strings.Repeat("b/", 15) + "b")); err == nil {
		t.Error("37 segments are joined, want an error over 32")
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"", "/", "a//b/", "a/./b", "a\x00", strings.Repeat("a/", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePath(s)
		if err != nil {
			return
		}
		again, err := ParsePath(string(p))
		if err != nil || again != p || !p.HasPrefix(p) || p.Strip(p) != "" {
			t.Fatalf("%q is read as %q, and that as %q (%v)", s, p, again, err)
		}
	})
}

// via is the chain of a route that came from another relay.
func via(hops ...uint64) []uint64 { return append(hops, 1000) }

// Of parents that cost the same each gets its share of the paths, and of two relays
// with the same two parents each decides alike.
func TestPathsAreSpreadOverParentsThatCostTheSame(t *testing.T) {
	const parents, paths = 4, 4000
	var served [parents]int
	for i := range paths {
		path := Path(strconv.Itoa(i))
		var best *Announcement
		for j := range uint64(parents) {
			hops := []uint64{7, 100 + j}
			a := &Announcement{route: &Route{Path: path, Hops: hops}, hash: pathHash(path, hops...), recency: j}
			if best == nil || better(a, best) {
				best = a
			}
		}
		served[best.route.Hops[1]-100]++
	}
	for j, n := range served {
		if n < 900 || n > 1100 {
			t.Errorf("parent %d serves %d paths of %d, want about 1,000: %v", j, n, paths, served)
		}
	}
	// Relays of other builds compute the same.
	if got := pathHash("room/a", 7, 1<<53-1); got != 0xe0256767c180f256 {
		t.Errorf("the hash is %#x, want 0xe0256767c180f256", got)
	}
}

func TestTheBestUsableRouteIsServed(t *testing.T) {
	for _, c := range []struct {
		name   string
		routes []Route
		peer   Peer
		path   Path
		want   int // index of the route; -1 = unroutable
	}{
		{"the newest publisher, whatever it costs", []Route{{Path: "a"}, {Path: "a", Warm: 9}}, Peer{}, "a", 1},
		{"the higher epoch, whatever it costs", []Route{{Path: "a", Hops: via(7), Epoch: epoch2, Warm: 9}, {Path: "a", Hops: via(7), Epoch: epoch1}}, Peer{}, "a", 0},
		{"an epoch before none", []Route{{Path: "a", Hops: via(7), Epoch: epoch1, Warm: 9}, {Path: "a", Hops: via(7)}}, Peer{}, "a", 0},
		{"then known hops before unknown ones", []Route{{Path: "a", Hops: via(7), Warm: 9}, {Path: "a", Hops: via(0)}}, Peer{}, "a", 0},
		{"then the lowest warm cost", []Route{{Path: "a", Hops: via(7), Warm: 2}, {Path: "a", Hops: via(7), Warm: 1, Cold: 9}}, Peer{}, "a", 1},
		{"then cold cost", []Route{{Path: "a", Hops: via(7), Cold: 1}, {Path: "a", Hops: via(7), Cold: 2}}, Peer{}, "a", 0},
		{"then the shorter chain", []Route{{Path: "a", Hops: via(7)}, {Path: "a", Hops: via(7, 8)}}, Peer{}, "a", 0},
		{"then the newest", []Route{{Path: "a", Hops: via(7)}, {Path: "a", Hops: via(7)}}, Peer{}, "a", 1},
		{"the most specific path", []Route{{Path: "a/b", Warm: 9}, {Path: "a"}}, Peer{}, "a/b/c", 0},
		{"not through the peer", []Route{{Path: "a", Hops: []uint64{7}}, {Path: "a", Hops: []uint64{8}, Warm: 9}}, Peer{ID: 7}, "a", 1},
		{"zero is nobody", []Route{{Path: "a", Hops: []uint64{0}}}, Peer{ID: 0}, "a", 0},
		{"never a loop", []Route{{Path: "a", Hops: []uint64{3, 42}}}, Peer{}, "a", -1},
		{"not another path", []Route{{Path: "a/b"}}, Peer{}, "a", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOrigin(Config{ID: 42})
			sources := make([]*publisher, len(c.routes))
			for i, r := range c.routes {
				sources[i] = newPublisher()
				r.Source = sources[i]
				o.Announce(r)
			}
			sub, err := o.Subscribe(c.path, "t", c.peer, Options{})
			if c.want < 0 {
				wantError(t, err, ErrUnroutable)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(sources[c.want].pulled) != 1 {
				t.Fatalf("route %d was not asked", c.want)
			}
			sub.Close()
		})
	}
}

func TestAPeerIsNeverServedFromItsOwnSession(t *testing.T) {
	o := NewOrigin(Config{})
	self := newPublisher()
	o.Announce(Route{Path: "a", Source: self})
	_, err := o.Subscribe("a", "t", Peer{Source: self}, Options{})
	wantError(t, err, ErrUnroutable)
}

func wantChanges(t *testing.T, w *Watcher, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	changes, err := w.Next(ctx)
	if err != nil && len(want) > 0 {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s%s%v", [...]string{"+", "~", "-"}[c.Kind], c.Path, c.Route.Hops))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the watcher tells %q, want %q", got, want)
	}
}

func TestAWatcherTellsTheSetThenTheChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := newPublisher()
		a := o.Announce(Route{Path: "room/a", Hops: []uint64{1}, Source: source})
		o.Announce(Route{Path: "roomy", Source: source})
		all, peer := o.Watch("room", Peer{}), o.Watch("room", Peer{ID: 1})
		wantChanges(t, all, "+room/a[1]")
		wantChanges(t, peer) // the present set is empty, and told at once
		b := o.Announce(Route{Path: "room/a", Hops: []uint64{2, 5}, Source: source, Warm: 5})
		wantChanges(t, all) // a worse route changes nothing
		wantChanges(t, peer, "+room/a[2 5]")
		a.Update([]uint64{1, 3}, 9, 9)
		wantChanges(t, all, "~room/a[2 5]")
		b.Withdraw()
		b.Withdraw()
		wantChanges(t, all, "~room/a[1 3]")
		wantChanges(t, peer, "-room/a[]")
		a.Withdraw()
		wantChanges(t, all, "-room/a[]")
		o.Announce(Route{Path: "", Hops: []uint64{4}, Source: source})
		wantChanges(t, all, "+room[4]") // a broader route is shown at the prefix
		all.Close()
		_, err := all.Next(t.Context())
		wantError(t, err, ErrClosed)
	})
}

func TestALoopedRouteBecomesUsableByAnUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{ID: 42})
		w := o.Watch("", Peer{})
		wantChanges(t, w)
		a := o.Announce(Route{Path: "a", Hops: []uint64{42, 7}, Source: newPublisher()})
		wantChanges(t, w)
		a.Update([]uint64{7}, 0, 0)
		wantChanges(t, w, "+a[7]")
		a.Update([]uint64{42}, 0, 0)
		wantChanges(t, w, "-a[]")
	})
}

func TestAnIDIsRandomNonZeroAndBelow2To53(t *testing.T) {
	seen := map[uint64]bool{}
	for range 100 {
		id := NewOrigin(Config{}).ID()
		if id == 0 || id >= 1<<53 || seen[id] {
			t.Fatalf("id %d is zero, repeated, or not below 2^53", id)
		}
		seen[id] = true
	}
}
