package model

import (
	"context"
	"testing"
)

func TestWhatIsHeldIsToldByTrack(t *testing.T) {
	o := NewOrigin(Config{})
	if got := o.Cached(); len(got) != 0 {
		t.Fatalf("an empty origin holds %+v", got)
	}
	p, sub := newSubscribed(t, o, Options{Start: Start{Mode: StartFloor}})
	defer sub.Close()
	for _, sequence := range []uint64{3, 9, 4} {
		w := wantGroup(t, p, sequence, Window{})
		if err := w.WriteFrame(context.WithoutCancel(t.Context()), head(10), 0, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	held, _ := o.CacheBytes()
	got := o.Cached()
	if len(got) != 1 || got[0] != (CachedTrack{Path: "room", Name: "video", Groups: 3, Newest: 9, Bytes: held}) || held < 3*15 {
		t.Errorf("held are %+v, want 3 groups up to 9 with all %d bytes", got, held)
	}
}
