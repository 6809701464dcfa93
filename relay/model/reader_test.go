package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"unsafe"
)

func TestAReaderGetsHeadsAndPayloadsAsOneRunOfSlices(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	wantFrame(t, w, []byte("abc"))
	wantFrame(t, w, nil)
	wantFrame(t, w, []byte("de"))
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	// 00 80000003 abc | 00 80000000 | 00 80000002 de
	wantAll(t, wantReader(t, sub, 0), []byte("\x00\x80\x00\x00\x03abc\x00\x80\x00\x00\x00\x00\x80\x00\x00\x02de"))
}

func TestTwoReadersGetTheSameMemory(t *testing.T) {
	o := NewOrigin(Config{})
	p, one := newSubscribed(t, o, Options{})
	two := wantSubscription(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	wantFrame(t, w, bytes.Repeat([]byte{1}, 3000))
	a, err := wantReader(t, one, 0).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := wantReader(t, two, 0).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if unsafe.SliceData(a) != unsafe.SliceData(b) || len(a) != 3005 {
		t.Fatalf("slices %p (%d bytes) and %p differ, want one of 3005 bytes", a, len(a), b)
	}
	if cap(a) != len(a) {
		t.Fatalf("a slice of %d bytes has room for %d: appending to it would write into the log", len(a), cap(a))
	}
}

func TestAnOpenFrameIsReadWhileItFills(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	if err := w.BeginFrame(t.Context(), head(10), 0, 10); err != nil {
		t.Fatal(err)
	}
	r := wantReader(t, sub, 0)
	if n := r.Unread(); n != 0 {
		t.Fatalf("%d bytes are there of a frame that only began: its head would be a packet of its own", n)
	}
	b, err := w.Buffer(t.Context())
	if err != nil || len(b) != 10 {
		t.Fatalf("Buffer gave %d bytes and %v, want 10", len(b), err)
	}
	copy(b, "0123")
	w.Commit(4)
	got, err := r.Next(t.Context())
	if err != nil || string(got) != string(head(10))+"0123" {
		t.Fatalf("got %q and %v, want the head and the four bytes that are there", got, err)
	}
	wantError(t, w.BeginFrame(t.Context(), nil, 0, 1), errFrameOpen)
	wantError(t, w.Finish(), errFrameOpen)
}

func TestFramesAreGivenOneByOneWithTheirTimestamps(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	var want []string
	for i := range 200 { // more than three blocks of the index
		payload := fmt.Sprintf("frame %d", i)
		if i%7 == 0 {
			payload = ""
		}
		if err := w.WriteFrame(t.Context(), head(len(payload)), int64(i-50), []byte(payload)); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d:%s", i-50, payload))
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r := wantReader(t, sub, 0)
	for i := range want {
		f, err := r.NextFrame(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d:%s", f.Timestamp, wantPayload(t, r, f.Size)); got != want[i] {
			t.Fatalf("frame %d is %q, want %q", i, got, want[i])
		}
	}
	if _, err := r.NextFrame(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatalf("after the last frame came %v, want io.EOF", err)
	}
	if mark, all := r.group.mark.Load(), r.group.written.Load(); mark != all {
		t.Fatalf("the mark is %d of %d", mark, all)
	}
}

func wantPayload(t *testing.T, r *Reader, size int64) []byte {
	t.Helper()
	var out []byte
	for {
		b, err := r.Payload(t.Context())
		if errors.Is(err, io.EOF) {
			if int64(len(out)) != size {
				t.Fatalf("payload of %d bytes, want %d", len(out), size)
			}
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
		r.Taken(len(b))
	}
}

func TestFrameBoundsGiveExactlyTheFramesAskedFor(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := NewOrigin(Config{})
				p, passive := newSubscribed(t, o, Options{Passive: true})
				options := Options{
					Start: Start{Mode: StartFloor, Group: 3}, FrameStart: 2,
					End: 3, HasEnd: true, FrameEnd: 70, HasFrameEnd: true,
				}
				var sub *Subscription
				if !late {
					sub = wantSubscription(t, o, options)
				}
				w := wantGroup(t, p, 3, Window{})
				if late {
					sub = wantSubscription(t, o, options)
				}
				r := wantReader(t, sub, 3)
				if r.First() != 2 {
					t.Fatalf("the first frame is %d, want 2", r.First())
				}
				go func() {
					for i := range 100 {
						if w.WriteFrame(t.Context(), head(1), 0, []byte{byte(i)}) != nil {
							return
						}
					}
				}()
				synctest.Wait()
				got, err := readAll(t, r)
				wantError(t, err, io.EOF)
				if len(got) != 69*6 || got[5] != 2 || got[len(got)-1] != 70 {
					t.Fatalf("got %d bytes from frame %d to %d, want 414 from 2 to 70", len(got), got[5], got[len(got)-1])
				}
				passive.Close()
				sub.Close()
				p.Close()
			})
		})
	}
}

func TestAFrameRunsAcrossChunksAndALengthAloneAllocatesNothing(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	if err := w.BeginFrame(t.Context(), head(20*mib), 0, 20*mib); err != nil {
		t.Fatal(err)
	}
	if got := w.tail.end(); got != firstChunk {
		t.Fatalf("a declared frame of 20 MiB allocated %d bytes, want %d", got, firstChunk)
	}
	for w.left > 0 {
		b, err := w.Buffer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = byte(w.size - w.left + int64(i))
		}
		w.Commit(len(b))
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	want := head(20 * mib)
	for i := range 20 * mib {
		want = append(want, byte(i))
	}
	wantAll(t, wantReader(t, sub, 0), want)
}

func TestChunksFollowWhatArrived(t *testing.T) {
	for _, c := range []struct{ logged, need, want int64 }{
		{0, 6, 6},                     // a tiny group costs its frame
		{6, 6, 12},                    // a small log is tripled
		{600, 70, 490},                // by seven frames of 70 bytes, at most 512
		{0, 8204, 8204},               // one frame of 8 KiB, to the byte
		{0, 1 << 20, 16 << 10},        // a declared length alone is not believed
		{16 << 10, 1 << 20, 32 << 10}, // doubling
		{1 << 20, 1 << 20, 64 << 10},  // never more than a write may pin
		{80 << 10, 70, 10_220},        // small frames share an eighth of the log: 146 of them
		{1 << 20, 70, 65_520},         // 936 of them
		{256 << 10, 8204, 24_612},     // three of them
		{1 << 20, 64<<10 + 5, 64 << 10},
	} {
		if got := chunkSize(c.logged, c.need); got != c.want {
			t.Errorf("with %d bytes logged and %d needed a chunk has %d, want %d", c.logged, c.need, got, c.want)
		}
	}
}

func TestAClosedReaderGivesNothingAndItsWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		p, sub := newSubscribed(t, o, Options{})
		w := wantGroup(t, p, 0, Window{})
		r := wantReader(t, sub, 0)
		ended := make(chan error, 1)
		go func() {
			_, err := r.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		r.Close()
		wantError(t, <-ended, ErrClosed)
		if n := w.group.readers.Load(); n != 0 {
			t.Fatalf("%d readers are attached, want 0", n)
		}
		sub.Close()
		p.Close()
	})
}

func TestReadingCostsNoAllocation(t *testing.T) {
	o := NewOrigin(Config{})
	p, sub := newSubscribed(t, o, Options{})
	w := wantGroup(t, p, 0, Window{})
	payload, before := make([]byte, 100), head(100)
	r := wantReader(t, sub, 0)
	got := testing.AllocsPerRun(1000, func() {
		if err := w.WriteFrame(t.Context(), before, 0, payload); err != nil {
			t.Fatal(err)
		}
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Taken(len(b))
	})
	// One chunk in many frames and one block in 64: no allocation per frame.
	if got >= 1 {
		t.Fatalf("a frame written and read costs %v allocations, want less than one", got)
	}
}
