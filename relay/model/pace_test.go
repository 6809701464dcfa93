package model

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// ingest writes frames of size bytes in the background until want are in or the
// group ends, and counts those that were admitted.
func ingest(ctx context.Context, w *GroupWriter, size, want int) (admitted *atomic.Int64, ended chan error) {
	admitted, ended = new(atomic.Int64), make(chan error, 1)
	go func() {
		payload := bytes.Repeat([]byte{7}, size)
		for range want {
			if err := w.WriteFrame(ctx, head(size), 0, payload); err != nil {
				ended <- err
				return
			}
			admitted.Add(1)
		}
		ended <- w.Finish()
	}()
	return admitted, ended
}

func wantAdmitted(t *testing.T, admitted *atomic.Int64, want int64) {
	t.Helper()
	synctest.Wait()
	if got := admitted.Load(); got != want {
		t.Fatalf("%d frames were admitted, want %d", got, want)
	}
}

// take takes n bytes, however many slices they are in.
func take(t *testing.T, r *Reader, n int) {
	t.Helper()
	for n > 0 {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b = b[:min(len(b), n)]
		r.Taken(len(b))
		n -= len(b)
	}
}

func TestAWriterStopsOneWindowPastTheFastestReader(t *testing.T) {
	for _, c := range []struct {
		name          string
		frame, window int
		want          int64
	}{
		{"frames of 64 KiB, 1 MiB", 64 * kib, mib, 15}, // 15 × (65,536+5+128) = 985,035; the 16th would be 1,050,704
		{"frames of 1 MiB, 4 MiB", mib, 4 * mib, 3},
		{"frames of 1 MiB, 16 MiB", mib, 16 * mib, 15},
		{"frames of 64 KiB, 16 MiB", 64 * kib, 16 * mib, 255},
		{"empty frames are paced by what they cost", 0, 1330, 10}, // 10 × (5+128)
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				p, sub := newSubscribed(t, o, Options{})
				w := wantGroup(t, p, 0, Window{Bytes: int64(c.window)})
				r := wantReader(t, sub, 0)
				admitted, ended := ingest(t.Context(), w, c.frame, int(c.want)+20)
				wantAdmitted(t, admitted, c.want)
				take(t, r, c.frame+5)
				wantAdmitted(t, admitted, c.want+1)
				take(t, r, 2*(c.frame+5))
				wantAdmitted(t, admitted, c.want+3)
				sub.Close()
				p.Fail(ErrSourceGone)
				<-ended
			})
		})
	}
}

func TestWithoutAReaderOneWindowIsHeldAndTheFirstByteTakenGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		w := wantGroup(t, p, 0, Window{Bytes: mib})
		admitted, ended := ingest(t.Context(), w, 64*kib, 100)
		wantAdmitted(t, admitted, 15)
		late := wantSubscription(t, o, Options{})
		r := wantReader(t, late, 0)
		wantAdmitted(t, admitted, 15) // attaching alone moves nothing: the reader has not taken all complete frames
		go func() { _, _ = readAll(t, r) }()
		wantAdmitted(t, admitted, 100)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		passive.Close()
		late.Close()
		p.Close()
	})
}

func TestAFrameLargerThanTheWindowWaitsForAReaderThatHasEverythingBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		w := wantGroup(t, p, 0, Window{Bytes: 100 * kib})
		admitted, ended := ingest(t.Context(), w, 300*kib, 2)
		wantAdmitted(t, admitted, 0)
		if held, _ := o.CacheBytes(); held != groupCharge {
			t.Fatalf("the cache holds %d bytes for a frame that waits, want %d", held, groupCharge)
		}
		sub := wantSubscription(t, o, Options{})
		r := wantReader(t, sub, 0)
		wantAdmitted(t, admitted, 1) // none is all complete frames: the first goes in whole
		take(t, r, 300*kib+4)
		wantAdmitted(t, admitted, 1) // one byte of it is left
		take(t, r, 1)
		wantAdmitted(t, admitted, 2)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		passive.Close()
		sub.Close()
		p.Close()
	})
}

func TestAFrameLargerThanTheWindowStopsWhenItsLastReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, passive := newSubscribed(t, o, Options{Passive: true})
		sub := wantSubscription(t, o, Options{})
		w := wantGroup(t, p, 0, Window{Bytes: 100 * kib})
		if err := w.BeginFrame(t.Context(), head(mib), 0, mib); err != nil {
			t.Fatal(err)
		}
		fill := func() bool {
			b, err := w.Buffer(t.Context())
			if err == nil {
				w.Commit(len(b))
			}
			return err == nil
		}
		var filled atomic.Int64
		for o.stats.Paused.Load() == 0 && filled.Load() < 200*kib {
			if !fill() {
				t.Fatal("the frame stopped with a reader attached")
			}
			filled.Store(w.size - w.left)
		}
		sub.Close() // it was the only one; the group is the latest, so it stays
		done := make(chan bool, 1)
		go func() { done <- fill() }()
		synctest.Wait()
		if o.stats.Paused.Load() != 1 {
			t.Fatalf("without a reader the frame goes on past the window after %d bytes", filled.Load())
		}
		p.Fail(ErrSourceGone)
		if <-done {
			t.Fatal("a pause outlived its group")
		}
		passive.Close()
	})
}

func TestTheFastestReaderSetsThePaceAndItsMarkOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, fast := newSubscribed(t, o, Options{})
		slow := wantSubscription(t, o, Options{})
		w := wantGroup(t, p, 0, Window{Bytes: mib})
		rf, rs := wantReader(t, fast, 0), wantReader(t, slow, 0)
		admitted, ended := ingest(t.Context(), w, 64*kib, 100)
		wantAdmitted(t, admitted, 15)
		take(t, rf, 10*(64*kib+5))
		wantAdmitted(t, admitted, 25)
		fast.Close()
		wantAdmitted(t, admitted, 25)
		take(t, rs, 9*(64*kib+5)) // still behind where the fast one was
		wantAdmitted(t, admitted, 25)
		take(t, rs, 2*(64*kib+5))
		wantAdmitted(t, admitted, 26)
		slow.Close()
		p.Fail(ErrSourceGone)
		wantError(t, <-ended, ErrSourceGone)
	})
}

func TestAWindowOfZeroNeverPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{})
		admitted, ended := ingest(t.Context(), w, 64*kib, 400)
		wantAdmitted(t, admitted, 400)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		sub.Close()
		p.Close()
	})
}

func TestAPauseEndsAtOnceWhenTheGroupIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{Bytes: 1000})
		r := wantReader(t, sub, 0)
		admitted, ended := ingest(t.Context(), w, 100, 100)
		wantAdmitted(t, admitted, 4) // 4 × (100+5+128) = 932
		w.Abort(&AbortError{Code: 0x35})
		var abort *AbortError
		if err := <-ended; !asAbort(err, &abort) || abort.Code != 0x35 {
			t.Fatalf("the pause ended with %v, want code 0x35", err)
		}
		got, err := readAll(t, r)
		if len(got) != 4*105 || !asAbort(err, &abort) {
			t.Fatalf("the reader got %d bytes and %v, want 420 and the abort", len(got), err)
		}
		sub.Close()
		p.Close()
	})
}

func TestACancelledContextEndsAPauseAndLeavesTheGroupOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{Bytes: 200})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrClosed)
		defer cancel()
		admitted, ended := ingest(ctx, w, 10, 5)
		wantError(t, <-ended, ErrClosed)
		wantAdmitted(t, admitted, 1)
		if w.Err() != nil {
			t.Fatalf("the group ended with %v", w.Err())
		}
		sub.Close()
		p.Close()
	})
}

func TestOnlyAsManyStreamsPauseAsTheCreditCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{MaxLatency: time.Hour})
		credit := NewCredit(3 * mib) // 4 MiB of connection window, streams of 1 MiB
		var counts []*atomic.Int64
		var ends []chan error
		for i := range uint64(4) {
			w := wantGroup(t, p, i, Window{Bytes: mib, Credit: credit})
			n, ended := ingest(t.Context(), w, 64*kib, 100)
			counts, ends = append(counts, n), append(ends, ended)
			synctest.Wait()
		}
		for i, want := range []int64{15, 15, 15, 100} {
			if got := counts[i].Load(); got != want {
				t.Errorf("group %d holds %d frames, want %d", i, got, want)
			}
		}
		if got := o.stats.Paused.Load(); got != 3 {
			t.Errorf("%d writers are paused, want 3", got)
		}
		sub.Close()
		p.Fail(ErrSourceGone)
		for _, ended := range ends {
			<-ended
		}
		if credit.free != 3*mib {
			t.Errorf("%d bytes of credit are free after all pauses, want %d", credit.free, 3*mib)
		}
	})
}

func TestADeniedPauseDropsTheFrontOfTheGroupInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{GroupTail: mib, MaxFrame: mib / 2})
		p, sub := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{Bytes: mib / 4, Credit: NewCredit(0)})
		r := wantReader(t, sub, 0)
		_, ended := ingest(t.Context(), w, 64*kib, 64)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if held, _ := o.CacheBytes(); held > mib || held < mib-130*kib {
			t.Errorf("%d bytes are held, want at most a tail of %d and no two frames less", held, mib)
		}
		<-r.Cut()
		wantError(t, r.Err(), ErrLagged)
		if _, err := r.Next(t.Context()); err == nil {
			t.Error("a reader that lagged was given bytes")
		}
		late := wantSubscription(t, o, Options{})
		wantAdmittedNothing(t, late)
		late.Close()
		sub.Close()
		p.Close()
	})
}

// wantAdmittedNothing: a late joiner that needs a dropped start skips the group.
func wantAdmittedNothing(t *testing.T, sub *Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := sub.Next(ctx); err == nil {
		t.Fatalf("got group %d although its start is gone", r.Sequence())
	}
}
