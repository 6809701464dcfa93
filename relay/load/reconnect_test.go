package load

import (
	"context"
	"crypto/sha256"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay"
	"github.com/moqrelay/operator/relay/config"
)

// ward is a relay that the test ends.
type ward struct {
	server  *relay.Server
	address string
	end     context.CancelFunc
	over    chan struct{} // closed when Run has returned
}

// newWard runs a relay that waits a minute for sessions to leave when it drains.
func newWard(t *testing.T) *ward {
	t.Helper()
	base := config.Development()
	base.Listen, base.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	base.Drain.TimeoutSeconds, base.Drain.GoawaySpreadSeconds = 60, new(int)
	base.Protocols = []string{"moq-lite-07-wip", "moq-lite-06"}
	loaded, err := config.Load(config.Source{Base: &base})
	if err != nil {
		t.Fatal(err)
	}
	server, err := relay.New(relay.Options{Loaded: loaded})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &ward{server: server, address: addresses.TCP, end: cancel, over: make(chan struct{})}
	go func() {
		defer close(w.over)
		_ = server.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-w.over })
	return w
}

// balancer is one TCP address in front of relays: each connection goes to the one
// that is behind it then.
type balancer struct {
	net.Listener
	behind atomic.Pointer[string]
	tasks  sync.WaitGroup
}

func newBalancer(t *testing.T, first string) *balancer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: listener}
	b.behind.Store(&first)
	b.tasks.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.tasks.Go(func() { b.pass(t.Context(), conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); b.tasks.Wait() })
	return b
}

// pass copies both ways until either side is gone.
func (b *balancer) pass(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	inner, err := new(net.Dialer).DialContext(ctx, "tcp", *b.behind.Load())
	if err != nil {
		return
	}
	defer inner.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); inner.Close() })()
	b.tasks.Go(func() { _, _ = io.Copy(inner, conn); inner.Close() })
	_, _ = io.Copy(conn, inner)
}

// epochOfTests is what the publishers of a test have in common.
var epochOfTests = Epoch{1, 2, 3}

// steadily publishes 20 groups of 5 frames a second until the test ends.
func steadily(t *testing.T, target Target) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Publish(ctx, PublishOptions{
			Targets: []Target{target}, Broadcast: "cam", Track: "video", MaxLatency: time.Minute, Epoch: epochOfTests, Reconnect: true,
			Content: &Checked{Frames: 5, Rate: 100, Sizes: Sizes{100, 100}, Since: time.Unix(0, 0)},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("publisher: %v", err)
		}
	})
}

// watchThrough watches while relays change: change is called with the tenth frame.
// The view ends with the track, or with ctx.
func watchThrough(ctx context.Context, t *testing.T, target Target, lossy bool, change func()) Report {
	t.Helper()
	var shown logBuffer
	frames := 0
	begun := make(chan struct{})
	var task sync.WaitGroup
	task.Go(func() {
		select {
		case <-begun:
			change()
		case <-t.Context().Done():
		}
	})
	report, err := View(ctx, ViewOptions{
		Target: target, Broadcast: "cam", Track: "video", MaxLatency: time.Minute, Reconnect: true, Lossy: lossy,
		Progress: &Progress{Out: &shown, Quiet: true},
		OnFrame: func(Place, []byte) {
			if frames++; frames == 10 {
				close(begun)
			}
		},
	})
	if err != nil {
		t.Fatalf("%v; it has said\n%s", err, &shown)
	}
	task.Wait()
	return report
}

// awaitSo waits until something is so.
func awaitSo(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}

func TestPublisherAndViewerFollowAGoawayAndNoFrameIsMissing(t *testing.T) {
	first, second := newWard(t), newWard(t)
	front := newBalancer(t, first.address)
	to := target(t, front.Addr().String(), "websocket", "moq-lite-07-wip")
	release, line := io.Pipe()
	ended := publishing(t, PublishOptions{
		Targets: []Target{to}, Epoch: epochOfTests, Reconnect: true, Wait: true,
		Content: &Checked{Groups: 40, Frames: 5, Rate: 200, Sizes: Sizes{100, 100}}, HoldAfter: []int{100}, Release: release,
	})
	report := watchThrough(t.Context(), t, to, false, func() {
		front.behind.Store(&second.address)
		first.server.Drain()
		awaitSo(t, func() bool { return second.server.Origin().Stats().Subscriptions.Load() == 1 })
		_, _ = io.WriteString(line, "go on\n")
	})
	if want := (Report{Frames: 200, Bytes: 20_000, Groups: 40, Last: 39, Moves: 1, Ended: true}); !sameCounts(report, want) {
		t.Errorf("%s\nwant %s", report.Line(), want.Line())
	}
	if err := ended(); err != nil {
		t.Errorf("publisher: %v", err)
	}
	<-first.over // both have left it by themselves
}

// sameCounts compares all but the times.
func sameCounts(a, b Report) bool {
	a.Stall, a.StallGroup, b.Stall, b.StallGroup = 0, 0, 0, 0
	return a == b
}

func TestPublisherAndViewerComeBackWhenTheirRelayIsLost(t *testing.T) {
	first, second := newWard(t), newWard(t)
	front := newBalancer(t, first.address)
	to := target(t, front.Addr().String(), "websocket", "moq-lite-07-wip")
	steadily(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report := watchThrough(ctx, t, to, true, func() {
		front.behind.Store(&second.address)
		first.end()
		awaitSo(t, func() bool { return second.server.Origin().Stats().Groups.Load() >= 10 })
		cancel()
	})
	if report.Reconnects != 1 || report.Moves+report.Resets != 0 || report.Corrupt != 0 {
		t.Errorf("%s; want one session lost", report.Line())
	}
	if report.Groups < 10 {
		t.Errorf("%s; want the 10 groups that the second relay had", report.Line())
	}
}

func TestAnEpochNeedsAVersionThatHasThem(t *testing.T) {
	err := Publish(t.Context(), PublishOptions{
		Targets: []Target{target(t, startRelay(t), "websocket", "")}, Broadcast: "cam", Track: "video",
		Content: &Checked{Frames: 1}, Epoch: epochOfTests,
	})
	if want := "an epoch needs moq-lite-07-wip and the relay chose moq-lite-06: name the former in its `protocols`"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestTwoPublishersBesideEachOtherSendTheSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := func() *Checked {
			return &Checked{Frames: 4, Rate: 8, Sizes: Sizes{50, 500}, Since: time.Unix(0, 0)}
		}
		<-time.After(300 * time.Millisecond) // fake time begins at a whole second
		one := content()
		want := map[Place][sha256.Size]byte{}
		began := time.Now()
		for n := range 16 {
			f, due := take(t, one)
			if n == 0 && (f.Group != uint64(began.Unix())*2+1 || due.Sub(began) != 200*time.Millisecond) {
				t.Errorf("the first is %v after %v, want frame 0 of the group of the next half second", f.Place, due.Sub(began))
			}
			want[f.Place] = sha256.Sum256(one.Payload(f.Made))
		}
		<-time.After(time.Second)
		other := content()
		for range 8 {
			f, _ := take(t, other)
			if sum := sha256.Sum256(other.Payload(f.Made)); sum != want[f.Place] {
				t.Errorf("%v differs", f.Place)
			}
		}
	})
}

func TestContentThatBeginsLaterWaitsForItsFirstGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Checked{Frames: 2, Rate: 2, Sizes: Sizes{50, 50}, Since: time.Now().Add(3 * time.Second)}
		f, due := take(t, c)
		if f.Place != (Place{}) || time.Until(due) != 3*time.Second {
			t.Errorf("the first is %v after %v", f.Place, time.Until(due))
		}
	})
}

func TestAnEpochIsAUUID(t *testing.T) {
	var e Epoch
	text := "0193f3a0-1b2c-7d3e-8f40-0000000000ff"
	if err := e.Set(text); err != nil || e[0] != 1 || e[15] != 255 || e.String() != text {
		t.Errorf("%v: %x shown as %q", err, e, e.String())
	}
	for _, bad := range []string{"", "1", "00000000-0000-0000-0000-000000000000", text + "00", "x193f3a0-1b2c-7d3e-8f40-0000000000ff"} {
		if err := new(Epoch).Set(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// seeing is a viewer that has read these groups: 'w' whole, 'c' cut, 'r' being
// read, '.' none; numbers from 0.
func seeing(groups string) *viewer {
	v := &viewer{groups: make(map[uint64]*seen)}
	for i, c := range []byte(groups) {
		if c == '.' {
			continue
		}
		g := v.start(uint64(i))
		switch c {
		case 'w':
			v.end(g, io.EOF, false)
		case 'c':
			v.end(g, io.ErrUnexpectedEOF, false)
		}
	}
	return v
}

func TestANewSubscriptionGoesOnBehindTheLastWholeGroup(t *testing.T) {
	for groups, want := range map[string]uint64{
		"": 0, "www": 3, "wcw": 1, "w.w": 1, "wrr": 3, "wrc": 2, "c" + "wwwwwwww": 9,
	} {
		if got := seeing(groups).resume(); got != want {
			t.Errorf("after %q it goes on with %d, want %d", groups, got, want)
		}
	}
}

func TestGapsAreRunsOfMissingGroups(t *testing.T) {
	v := seeing("ww.w...wcwwwwwwww")
	r, _ := v.verdict(io.EOF, nil)
	if r.Missing != 4 || r.Gaps != 2 || r.LongestGap != 3 || r.Cut != 1 || r.Groups != 12 || r.Last != 16 {
		t.Errorf("%s", r.Line())
	}
	v = seeing("wwww.....w")
	if r, _ := v.verdict(context.Canceled, nil); r.Missing != 0 { // they may be under way
		t.Errorf("%s", r.Line())
	}
}
