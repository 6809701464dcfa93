package model

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// wantDatagrams takes all datagrams that wait.
func wantDatagrams(t *testing.T, q *DatagramQueue, want ...uint64) {
	t.Helper()
	var got []uint64
	for {
		d, ok := q.take(time.Now())
		if !ok {
			break
		}
		if d.Timestamp != int64(10*d.Sequence) || len(d.Payload) != 1 || d.Payload[0] != byte(d.Sequence) {
			t.Errorf("datagram %d has timestamp %d and payload %x", d.Sequence, d.Timestamp, d.Payload)
		}
		got = append(got, d.Sequence)
	}
	if len(got) != len(want) {
		t.Fatalf("datagrams %v wait, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("datagrams %v wait, want %v", got, want)
		}
	}
}

func datagrams(p *Producer, sequences ...uint64) {
	for _, seq := range sequences {
		p.Datagram(seq, int64(10*seq), []byte{byte(seq)})
	}
}

func TestADatagramGoesToEverySubscriberThatTakesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		source := newPublisher()
		o.Announce(Route{Path: "room", Source: source})
		one, two := NewDatagramQueue(nil), NewDatagramQueue(nil)
		a := wantSubscription(t, o, Options{Datagrams: one})
		b := wantSubscription(t, o, Options{Datagrams: two, Start: Start{StartGroup, 6}, End: 7, HasEnd: true})
		c := wantSubscription(t, o, Options{Datagrams: two})
		deaf := wantSubscription(t, o, Options{})
		passive := wantSubscription(t, o, Options{Datagrams: one, Passive: true})
		p := <-source.pulled
		datagrams(p, 1) // nobody knows its timescale yet
		p.Accept(anyInfo)
		datagrams(p, 5, 6, 7, 8)
		wantDatagrams(t, one, 5, 6, 7, 8)
		b.Close() // what waits for it is not sent
		wantDatagrams(t, two, 5, 6, 7, 8)
		wantGroups(t, deaf) // it makes no group
		wantGroups(t, a)
		wantHeld(t, o, 0)
		for _, s := range []*Subscription{a, c, deaf, passive} {
			s.Close()
		}
		p.Fail(ErrSourceGone)
		datagrams(p, 9)
		wantDatagrams(t, one)
	})
}

func TestADatagramKnowsItsSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		q := NewDatagramQueue(nil)
		p, sub := newSubscribed(t, o, Options{Datagrams: q, Start: Start{StartGroup, 6}})
		got := make(chan Datagram, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			for {
				d, err := q.Next(ctx)
				if err != nil {
					ended <- err
					return
				}
				got <- d
			}
		}()
		synctest.Wait()
		datagrams(p, 5, 6)
		if d := <-got; d.Subscription != sub || d.Sequence != 6 {
			t.Fatalf("got datagram %d, want 6 of the subscription", d.Sequence)
		}
		cancel()
		wantError(t, <-ended, context.Canceled)
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestOf100DatagramsThatNobodyTakes64Wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		q := NewDatagramQueue(nil)
		p, sub := newSubscribed(t, o, Options{Datagrams: q})
		for seq := range uint64(100) {
			datagrams(p, seq)
		}
		want := make([]uint64, 64)
		for i := range want {
			want[i] = uint64(36 + i) // the oldest went
		}
		wantDatagrams(t, q, want...)
		if n := o.Stats().DatagramsQueue.Load(); n != 36 {
			t.Errorf("%d are counted as dropped for want of a place, want 36", n)
		}
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}

func TestADatagramWaits50MillisecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOrigin(Config{})
		q := NewDatagramQueue(nil)
		p, sub := newSubscribed(t, o, Options{Datagrams: q})
		datagrams(p, 1)
		advance(20 * time.Millisecond)
		datagrams(p, 2)
		advance(31 * time.Millisecond)
		wantDatagrams(t, q, 2)
		if n := o.Stats().DatagramsAge.Load(); n != 1 {
			t.Errorf("%d are counted as too old, want 1", n)
		}
		sub.Close()
		p.Fail(ErrSourceGone)
	})
}
