package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"
)

// publisher is a source that hands its requests to the test.
type publisher struct {
	pulled chan *Producer
}

func newPublisher() *publisher { return &publisher{pulled: make(chan *Producer, 16)} }

func (p *publisher) Pull(request *Producer) { p.pulled <- request }

var anyInfo = Info{Timescale: 1000, MaxAge: defaultMaxAge}

// newTrack returns an accepted request for one track, and a subscription to it
// that wants everything.
func newSubscribed(t *testing.T, o *Origin, options Options) (*Producer, *Subscription) {
	t.Helper()
	source := newPublisher()
	o.Announce(Route{Path: "room", Source: source})
	sub := wantSubscription(t, o, options)
	p := <-source.pulled
	p.Accept(anyInfo)
	return p, sub
}

func wantSubscription(t *testing.T, o *Origin, options Options) *Subscription {
	t.Helper()
	sub, err := o.Subscribe("room", "video", Peer{}, options)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func wantGroup(t *testing.T, p *Producer, sequence uint64, window Window) *GroupWriter {
	t.Helper()
	w, err := p.Group(sequence, window)
	if err != nil {
		t.Fatalf("group %d: %v", sequence, err)
	}
	return w
}

// head is a stored head for a payload of n bytes: five bytes, delta 0 and a
// four-byte length.
func head(n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0}, 0x80000000|uint32(n))
}

func wantFrame(t *testing.T, w *GroupWriter, payload []byte) {
	t.Helper()
	if err := w.WriteFrame(t.Context(), head(len(payload)), 0, payload); err != nil {
		t.Fatal(err)
	}
}

// wantReader returns the next reader. One whose group is still silent, which Next
// would not give yet, will do where no other waits.
func wantReader(t *testing.T, sub *Subscription, sequence uint64) *Reader {
	t.Helper()
	r := silentReader(sub)
	if r == nil {
		var err error
		if r, err = sub.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Sequence() != sequence {
		t.Fatalf("got group %d, want %d", r.Sequence(), sequence)
	}
	return r
}

// silentReader hands out the only waiting group if it is silent.
func silentReader(sub *Subscription) *Reader {
	sub.track.mu.Lock()
	defer sub.track.mu.Unlock()
	if len(sub.speaking) != 0 || len(sub.silent) != 1 {
		return nil
	}
	g := sub.track.groups[sub.silent[0]]
	sub.silent = nil
	return sub.openLocked(g)
}

// readAll takes everything a reader gives and returns it with the error that ended it.
func readAll(t *testing.T, r *Reader) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	for {
		b, err := r.Next(t.Context())
		if err != nil {
			return out.Bytes(), err
		}
		out.Write(b)
		r.Taken(len(b))
	}
}

func wantAll(t *testing.T, r *Reader, want []byte) {
	t.Helper()
	got, err := readAll(t, r)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the group ended with %v, want io.EOF", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got %d bytes %.40x, want %d bytes %.40x", len(got), got, len(want), want)
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

// withdrawAll takes every route away: nobody may have what is held of them.
func withdrawAll(o *Origin) {
	o.mu.Lock()
	var all []*Announcement
	o.root.each(func(p *place) { all = append(all, p.routes...) })
	o.mu.Unlock()
	for _, a := range all {
		a.Withdraw()
	}
}

// advance lets so much of a synctest bubble's time pass.
func advance(d time.Duration) { <-time.After(d) }

func asAbort(err error, target **AbortError) bool { return errors.As(err, target) }
