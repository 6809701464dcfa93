package qmux

import (
	"runtime"
	"testing"
	"testing/synctest"
)

func TestAWindowRisesAsReleasedPeersRaiseIt(t *testing.T) {
	for _, row := range []struct{ consumed, advertised, size, want uint64 }{
		{0, 100, 100, 0},
		{49, 100, 100, 0},
		{50, 100, 100, 150},
		{100, 100, 100, 200},
		{131072, 262144, 262144, 393216},
		{5, 5, 0, 0}, // a window of 0 never grows
	} {
		w := newByteWindow(row.size)
		w.limit, w.used, w.consumed = row.advertised, row.consumed, row.consumed
		got := uint64(0)
		if w.raise() {
			got = w.limit
		}
		if got != row.want {
			t.Errorf("%d of %d consumed, window %d: new limit %d, want %d", row.consumed, row.advertised, row.size, got, row.want)
		}
	}
}

// Three parked streams of 1 MiB hold three quarters of a connection window of
// 4 MiB. A fourth of half a MiB was read: the half-window rule alone would never
// give that half MiB back, and the session would stand still.
func TestCreditThatAParkedSessionNeedsIsGivenBeforeHalfIsConsumed(t *testing.T) {
	w := newByteWindow(4 << 20)
	w.used, w.consumed = 3<<20+1<<19, 1<<19
	if !w.raise() || w.limit != 4<<20+1<<19 {
		t.Errorf("with half a MiB left the limit is %d, want %d", w.limit, 4<<20+1<<19)
	}
	w = newByteWindow(4 << 20)
	w.used, w.consumed = 4<<20, 1<<19-1
	if w.raise() {
		t.Errorf("credit of %d was given, want an eighth at least", 1<<19-1)
	}
	w.consumed++
	if !w.raise() {
		t.Error("a peer without credit does not get the eighth that is free")
	}
}

func TestCreditGoesBackAsTheReaderConsumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.maxData, local.streamDataUni = 16, 8
		p := greeted(t, Draft02, false, local)
		p.put("0e02000401020304")
		s := p.acceptUni()
		p.wantRead(s, "\x01\x02\x03\x04")
		p.wantSent("11020c")
		p.put("0e02040401020304")
		p.wantRead(s, "\x01\x02\x03\x04")
		p.wantSent("110210", "1018")
	})
}

func TestUnreadBytesAreNoReasonForCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.maxData, local.streamDataUni = 16, 8
		p := greeted(t, Draft02, false, local)
		p.put("0e0200080102030405060708")
		p.acceptUni()
		p.wantSent()
		p.put("0e02080109") // the ninth byte
		p.wantViolated(codeFlowControl)
	})
}

func TestStreamCreditGoesBackAfterAcceptAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.streamsUni = 4
		p := greeted(t, Draft02, false, local)
		p.put("0f020001aa", "0f060001aa", "0f0a0001aa")
		p.wantSent() // ended, but not accepted
		for range 3 {
			s := p.acceptUni()
			p.wantRead(s, "\xaa")
		}
		p.wantSent("1306")
		p.put("0f0e0001aa", "0f120001aa", "0f160001aa")
		p.wantSent("1307") // six of six are used, and three were had
		for range 3 {
			p.acceptUni().Stop(1) // unread, but its end is here: nothing to ask for
		}
		p.wantSent("1309")
	})
}

func TestABidiStreamCountsUntilBothHalvesHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.streamsBidi = 2
		p := greeted(t, Draft02, false, local)
		p.put("0f000001aa")
		s := p.acceptBidi()
		p.wantRead(s, "\xaa")
		p.wantSent()
		_ = s.Close()
		p.wantSent("0f000000", "1203")
	})
}

func TestAStoppedStreamCountsUntilThePeersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.streamsUni, local.maxData = 2, 16
		p := greeted(t, Draft02, false, local)
		p.put("0e0200080102030405060708")
		s := p.acceptUni()
		s.Stop(5)
		p.wantSent("050205", "1018") // what was unread is free again at once
		p.put("0e0208080102030405060708")
		p.wantSent("1020") // and what still arrives
		p.put("04020510")
		p.wantSent("1303")
	})
}

func TestAResetGivesItsFinalSizeBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.maxData, local.streamDataUni = 16, 16
		p := greeted(t, Draft02, false, local)
		p.put("0402070c") // the first frame of its stream: final size 12
		p.wantSent("101c")
	})
}

func TestDataWaitsForTheSmallerCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, Draft02, true, released(Draft02))
		p.put("ff5153300d0a0d0a0c" + "04010a" + "070106" + "09010a" + "080101") // 10 on the connection, 6 on a stream
		first, second := p.openUni(), p.openUni()
		go func() { _, _ = first.Write([]byte("123456789")) }()
		synctest.Wait()
		go func() { _, _ = second.Write([]byte("abcdefghi")) }()
		p.wantSent("0e020006313233343536", "0e06000461626364")
		p.put("110209") // the stream's credit alone is not enough
		p.wantSent()
		p.put("100b", "1008") // one byte; a lower limit means nothing
		p.wantSent("0e06040165")
		p.put("10403f")
		p.wantSent("0e020603373839", "0e06050166")
	})
}

func TestMemoryFollowsTheBytesThatArriveAndNoLength(t *testing.T) {
	for _, size := range []int{1, 10, 1000, 16000} {
		var u unread
		before := allocated()
		total := 0
		for total < 1<<20 {
			u.put(make([]byte, size)) // counted too: less than the bytes themselves, freed at once
			total += size
		}
		if got := cap64(&u); got > 2*total+2*maxChunk {
			t.Errorf("frames of %d bytes: %d bytes in chunks for %d", size, got, total)
		}
		if grown := allocated() - before; grown > 4<<20 {
			t.Errorf("frames of %d bytes: the heap grew by %d for %d bytes", size, grown, total)
		}
		runtime.KeepAlive(&u)
	}
}

func cap64(u *unread) (n int) {
	for _, c := range u.chunks.items[u.chunks.head:] {
		n += cap(c)
	}
	return n
}

// allocated is the live heap in bytes.
func allocated() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestUnreadGivesBackWhatWasPut(t *testing.T) {
	var u unread
	want, got := 0, 0
	check := func(p []byte) {
		for _, b := range p {
			if b != byte(got%251) {
				t.Fatalf("byte %d is %d, want %d", got, b, got%251)
			}
			got++
		}
	}
	for i := range 3000 {
		p := make([]byte, i%97)
		for k := range p {
			p[k] = byte(want % 251)
			want++
		}
		u.put(p)
		b := make([]byte, i%83)
		check(b[:u.take(b)])
	}
	kept := u.len / 2
	if dropped := u.cut(kept); dropped != want-got-kept || u.len != kept {
		t.Errorf("cut dropped %d and left %d, want %d and %d", dropped, u.len, want-got-kept, kept)
	}
	b := make([]byte, kept+1)
	check(b[:u.take(b)])
	if u.len != 0 || u.chunks.len() != 0 {
		t.Errorf("%d bytes are left in %d chunks", u.len, u.chunks.len())
	}
}

// A peer may have a stream limit of unseen streams at most, and they cost an
// entry of a map each, not a stream.
func TestSkippedStreamsAreBoundedByTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := greeted(t, Draft02, false, released(Draft02))
		p.put("0e418e0001aa") // id 398: index 99 of 100
		p.conn.mu.Lock()
		skipped, streams := len(p.conn.remotes[uni].skipped), len(p.conn.streams)
		p.conn.mu.Unlock()
		if skipped != 99 || streams != 1 {
			t.Errorf("%d skipped and %d streams, want 99 and 1", skipped, streams)
		}
		p.put("0e020001bb") // a lower one may still come
		p.wantRead(p.acceptUni(), "\xaa")
		p.wantRead(p.acceptUni(), "\xbb")
	})
}

func TestAnsweringAFloodTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := released(Draft02)
		local.streamsBidi = 10
		p := greeted(t, Draft02, false, local)
		p.mu.Lock()
		p.hold = make(chan struct{}) // the peer reads nothing
		p.mu.Unlock()
		for i := range 2000 {
			p.in <- appendFrame(nil, framePingRequest, uint64(i))
			p.in <- appendFrame(nil, frameStopSending, 0, 1)
			p.in <- appendStream(nil, 4, uint64(i), []byte{1}, false)
			p.in <- appendStream(nil, 8, 0, nil, false)
		}
		p.wantOpen()
		p.conn.mu.Lock()
		queued, unread := p.conn.control.streams.len(), p.conn.streams[4].unread.len
		p.conn.mu.Unlock()
		if queued > 10 || unread != 2000 {
			t.Errorf("%d streams have control frames waiting, %d bytes are unread; want at most 10, and 2000", queued, unread)
		}
		p.close()
	})
}
