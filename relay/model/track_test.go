package model

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func wantDone(t *testing.T, done <-chan struct{}, want bool) {
	t.Helper()
	synctest.Wait()
	select {
	case <-done:
		if !want {
			t.Fatal("it has ended")
		}
	default:
		if want {
			t.Fatal("it has not ended")
		}
	}
}

func TestOneUpstreamRequestServesAllSubscribersAndEndsADelayAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := newPublisher()
		o.Announce(Route{Path: "room", Source: source})
		one, two := wantSubscription(t, o, Options{}), wantSubscription(t, o, Options{})
		if n := len(source.pulled); n != 1 {
			t.Fatalf("two subscribers made %d upstream requests, want 1", n)
		}
		p := <-source.pulled
		p.Accept(anyInfo)
		one.Close()
		two.Close()
		advance(999 * time.Millisecond)
		wantDone(t, p.Done(), false)
		three := wantSubscription(t, o, Options{}) // comes back inside the delay
		advance(10 * time.Second)
		wantDone(t, p.Done(), false)
		if n := len(source.pulled); n != 0 {
			t.Fatalf("coming back made %d upstream requests, want 0", n)
		}
		three.Close()
		advance(time.Second)
		wantDone(t, p.Done(), true)
		wantSubscription(t, o, Options{}).Close()
		if n := len(source.pulled); n != 1 {
			t.Fatalf("after the end a subscriber made %d upstream requests, want a fresh one", n)
		}
		advance(time.Minute)
	})
}

func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(*Producer)
		want   error
	}{
		{"accepted", func(p *Producer) { p.Accept(anyInfo) }, nil},
		{"refused", func(p *Producer) { p.Fail(ErrNotFound) }, ErrNotFound},
		{"silent for 5 s", func(*Producer) { advance(5 * time.Second) }, ErrUpstreamTimeout},
		{"ended without an answer", func(p *Producer) { p.Close() }, ErrNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				source := newPublisher()
				o.Announce(Route{Path: "room", Source: source})
				sub := wantSubscription(t, o, Options{})
				p := <-source.pulled
				c.answer(p)
				_, err := sub.Info(t.Context())
				wantError(t, err, c.want)
				if c.want != nil {
					_, err = sub.Next(t.Context())
					wantError(t, err, c.want)
					wantDone(t, p.Done(), true)
				}
				sub.Close()
				advance(time.Minute)
			})
		})
	}
}

func TestARequestOutsideEveryRouteIsUnroutableAtOnce(t *testing.T) {
	o := NewOrigin(Config{})
	_, err := o.Subscribe("room", "video", Peer{}, Options{})
	wantError(t, err, ErrUnroutable)
}

// wantGroups takes all waiting groups.
func wantGroups(t *testing.T, sub *Subscription, want ...uint64) {
	t.Helper()
	var got []uint64
	for {
		r := sub.Take()
		if r == nil {
			break
		}
		got = append(got, r.Sequence())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the subscription gives groups %v, want %v", got, want)
	}
}

func filled(t *testing.T, p *Producer, sequences ...uint64) {
	t.Helper()
	for _, sequence := range sequences {
		w := wantGroup(t, p, sequence, Window{})
		if err := w.WriteFrame(t.Context(), nil, int64(sequence)*1000, []byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhereASubscriptionBegins(t *testing.T) {
	cap5 := func(o Options) Options { o.End, o.HasEnd = 5, true; return o }
	for _, c := range []struct {
		name    string
		options Options
		want    []uint64 // newest first
	}{
		{"latest", Options{}, []uint64{7}},
		{"latest, whatever the latency", Options{MaxLatency: time.Hour}, []uint64{7}},
		{"a group", Options{MaxLatency: time.Hour, Start: Start{StartGroup, 5}}, []uint64{7, 6, 5}},
		{"a group that is stale", Options{Start: Start{StartGroup, 5}}, []uint64{7}},
		{"no floor, no latency", Options{Start: Start{StartFloor, 0}}, []uint64{7}},
		// timescale 1000 and a group each second: group 4 ends where 5 begins, 2 s before 7.
		{"no floor, 2.5 s", Options{MaxLatency: 2500 * time.Millisecond, Start: Start{StartFloor, 0}}, []uint64{7, 6, 5, 4}},
		{"no floor, 2 s", Options{MaxLatency: 2 * time.Second, Start: Start{StartFloor, 0}}, []uint64{7, 6, 5}},
		{"oldest first", Options{MaxLatency: time.Hour, Ordered: true, Start: Start{StartFloor, 5}}, []uint64{5, 6, 7}},
		{"with an end", cap5(Options{MaxLatency: time.Hour, Start: Start{StartFloor, 4}}), []uint64{5, 4}},
		{"a floor above the latest waits", Options{Start: Start{StartFloor, 9}}, nil},
		{"demand only", Options{Passive: true, MaxLatency: time.Hour}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				p, passive := newSubscribed(t, o, Options{Passive: true})
				filled(t, p, 1, 2, 3, 4, 5, 6, 7)
				sub := wantSubscription(t, o, c.options)
				first, known := sub.First()
				if known != (len(c.want) > 0) || known && first != slices.Min(c.want) {
					t.Errorf("the first group is %d (known: %v), want the lowest of %v", first, known, c.want)
				}
				wantGroups(t, sub, c.want...)
				passive.Close()
				sub.Close()
				p.Close()
			})
		})
	}
}

func TestAGroupThatAnotherOvertookIsGivenToo(t *testing.T) {
	for _, begin := range []bool{false, true} {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		if begin {
			p.Begin(3)
		}
		filled(t, p, 5)
		first, ok := sub.First()
		if want := map[bool]uint64{false: 5, true: 3}[begin]; first != want || !ok {
			t.Errorf("with the publisher's first group known: %v, the first group is %d, want %d", begin, first, want)
		}
		filled(t, p, 3, 4)
		wantGroups(t, sub, 5, 4, 3)
		late := wantSubscription(t, o, Options{MaxLatency: time.Hour})
		filled(t, p, 2) // below where the late one began
		wantGroups(t, late, 5)
		wantGroups(t, sub, 2)
	}
}

func TestARaisedEndGivesWhatIsHeld(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour, Start: Start{Mode: StartFloor}, End: 2, HasEnd: true})
	filled(t, p, 1, 2, 3, 4, 5)
	wantGroups(t, sub, 2, 1)
	sub.Update(Options{MaxLatency: time.Hour, Start: Start{Mode: StartFloor}, End: 4, HasEnd: true})
	wantGroups(t, sub, 4, 3)
	sub.Update(Options{MaxLatency: time.Hour, Start: Start{Mode: StartFloor}})
	filled(t, p, 6)
	wantGroups(t, sub, 6, 5)
}

func TestANewerGroupCutsTheReadersThatItMakesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, edge := newSubscribed(t, o, Options{})
		patient := wantSubscription(t, o, Options{MaxLatency: time.Minute})
		one := wantGroup(t, p, 1, Window{})
		wantFrame(t, one, []byte("a"))
		re, rp := wantReader(t, edge, 1), wantReader(t, patient, 1)
		two := wantGroup(t, p, 2, Window{})
		wantDone(t, re.Cut(), false) // group 2 has no frame yet
		wantFrame(t, two, []byte("b"))
		wantDone(t, re.Cut(), true)
		wantError(t, re.Err(), ErrExpired)
		wantDone(t, rp.Cut(), false)
		edge.Close()
		patient.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestAGroupWhoseReadersAllLeftStopsWhenANewerOneExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		one := wantGroup(t, p, 1, Window{})
		r := wantReader(t, sub, 1)
		r.Close()
		wantDone(t, one.Done(), false) // the latest stays
		two := wantGroup(t, p, 2, Window{})
		wantDone(t, one.Done(), true)
		wantError(t, one.Err(), ErrExpired)
		wantDone(t, two.Done(), false)
		three := wantGroup(t, p, 3, Window{})
		wantDone(t, two.Done(), false) // its reader waits to be handed out
		sub.Close()
		wantDone(t, two.Done(), true)
		wantDone(t, three.Done(), false)
		p.Fail(ErrSourceGone)
	})
}

func TestARepeatedGroupNumberIsRefusedAndTheFirstGoesOn(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
	w := wantGroup(t, p, 5, Window{})
	_, err := p.Group(5, Window{})
	wantError(t, err, ErrDuplicate)
	wantFrame(t, w, []byte("x"))
	filled(t, p, 5+rememberedGroups)
	_, err = p.Group(5, Window{})
	wantError(t, err, ErrDuplicate)
	_, err = p.Group(4, Window{})
	wantError(t, err, ErrOld)
	wantGroups(t, sub, 5+rememberedGroups, 5)
}

func TestATrackEndsForItsSubscribersWhenItsLastGroupWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		filled(t, p, 0)
		p.Finish(2)
		if end, ok := sub.End(); end != 2 || !ok {
			t.Fatalf("the end is %d (known: %v), want 2", end, ok)
		}
		_, err := p.Group(2, Window{})
		wantError(t, err, ErrClosed)
		filled(t, p, 1) // still in flight when the end was told
		p.Close()
		wantDone(t, p.Done(), true)
		wantAll(t, wantReader(t, sub, 1), []byte{1})
		wantAll(t, wantReader(t, sub, 0), []byte{1})
		_, err = sub.Next(t.Context())
		wantError(t, err, io.EOF)
		sub.Close()
		wantHeld(t, o, 2*(groupCharge+frameCharge+1)) // it may still be fetched
		withdrawAll(o)
		wantHeld(t, o, 0)
	})
}

func TestPreferencesAreTheSumOfAllSubscribers(t *testing.T) {
	o := NewOrigin(Config{})
	p, one := newSubscribed(t, o, Options{Priority: 3, Ordered: true, MaxLatency: time.Second, End: 9, HasEnd: true})
	two := wantSubscription(t, o, Options{Priority: 200, MaxLatency: time.Hour, Start: Start{StartGroup, 4}, End: 12, HasEnd: true})
	want := Preferences{Active: true, Priority: 200, MaxLatency: 30 * time.Second, Start: 4, HasStart: true, End: 12, HasEnd: true}
	if got := p.Preferences(); got != want {
		t.Fatalf("together they want %+v, want %+v", got, want)
	}
	changed := p.Changed()
	two.Close()
	<-changed
	want = Preferences{Active: true, Priority: 3, Ordered: true, MaxLatency: time.Second, End: 9, HasEnd: true}
	if got := p.Preferences(); got != want {
		t.Fatalf("the one left wants %+v, want %+v", got, want)
	}
	passive := wantSubscription(t, o, Options{Passive: true, Priority: 99})
	defer passive.Close()
	one.Update(Options{Priority: 4})
	if got := p.Preferences(); got != (Preferences{Active: true, Priority: 4}) {
		t.Fatalf("after the update it wants %+v", got)
	}
	one.Close()
	if got := p.Preferences(); got != (Preferences{}) {
		t.Fatalf("demand without groups wants %+v, want nothing", got)
	}
}

func TestAFailedTrackFailsItsOpenGroupsWithTheSameError(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	wantFrame(t, w, []byte("x"))
	r := wantReader(t, sub, 0)
	p.Fail(&AbortError{Code: 7})
	got, err := readAll(t, r)
	var abort *AbortError
	if string(got) != "\x00\x80\x00\x00\x01x" || !errors.As(err, &abort) || abort.Code != 7 {
		t.Fatalf("the reader got %q and %v, want the frame and code 7", got, err)
	}
	<-w.Done()
	_, err = sub.Next(t.Context())
	if !errors.As(err, &abort) {
		t.Fatalf("the subscription ended with %v, want code 7", err)
	}
}

func TestDemandWithoutGroupsCountsAsNoViewer(t *testing.T) {
	o := NewOrigin(Config{})
	_, passive := newSubscribed(t, o, Options{Passive: true})
	sub := wantSubscription(t, o, Options{})
	if n := o.Stats().Subscriptions.Load(); n != 1 {
		t.Errorf("one viewer and one question about the track count as %d viewers, want 1", n)
	}
	passive.Close()
	sub.Close()
	if n := o.Stats().Subscriptions.Load(); n != 0 {
		t.Errorf("%d viewers are left, want 0", n)
	}
}
