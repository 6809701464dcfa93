//go:build soak

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// cameras are the broadcasts that come and go. A viewer watches one of them.
var cameras = []string{"cam0", "cam1", "cam2"}

// long is a token that outlives whoever has it.
const long = 10 * time.Minute

// tally is what one way of coming has come to.
type tally struct {
	joined, groups, frames, datagrams, fetched atomic.Int64
}

// late are errors of peers that were too slow, on a machine that is too busy. One
// session of twenty may end like this.
func late(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "no recent network activity") || strings.Contains(err.Error(), "idle for too long") ||
		strings.Contains(err.Error(), "came later than") || strings.Contains(err.Error(), "begun in time") || errors.Is(err, context.DeadlineExceeded))
}

// lost says that a session was not, or is no longer there, though it should be.
func (c *churn) lost(ctx context.Context, what string, w way, err error) {
	switch {
	case ctx.Err() != nil:
	case late(err):
		c.late.Add(1)
	default:
		c.fault("%s over %v: %v", what, w, err)
	}
}

// churn is everything that happens to a relay.
type churn struct {
	place   place
	relay   *relay
	program string
	fault   func(format string, args ...any) // may be called from any goroutine

	tallies map[way]*tally
	// Those over HTTP, those refused as they should be, relays that drained.
	pages, refused, drained, published, expired, stalled, killed, skipped, late atomic.Int64
	tasks                                                                       sync.WaitGroup
}

func newChurn(p place, r *relay, program string, fault func(string, ...any)) *churn {
	c := &churn{place: p, relay: r, program: program, fault: fault, tallies: make(map[way]*tally)}
	for _, w := range ways {
		c.tallies[w] = &tally{}
	}
	return c
}

// each calls do at every tick, with the number of the call, until ctx is done.
func each(ctx context.Context, d time.Duration, do func(i int)) {
	ticks := time.NewTicker(d)
	defer ticks.Stop()
	for i := 0; ; i++ {
		select {
		case <-ticks.C:
			do(i)
		case <-ctx.Done():
			return
		}
	}
}

// between is a random time.
func between(least, most time.Duration) time.Duration { return least + rand.N(most-least) }

// run does it all until ctx is done, and waits until nobody is left. drain starts
// and drains one more relay.
func (c *churn) run(ctx context.Context, drain func(ctx context.Context, i int)) {
	for _, camera := range cameras {
		c.tasks.Go(func() { c.publishers(ctx, c.place, camera) })
	}
	c.tasks.Go(func() { c.viewers(ctx) })
	c.tasks.Go(func() { c.stalling(ctx) })
	c.tasks.Go(func() { each(ctx, 5*time.Second, func(i int) { c.kill(ctx, i) }) })
	c.tasks.Go(func() { each(ctx, 300*time.Millisecond, c.browse) })
	c.tasks.Go(func() { each(ctx, 500*time.Millisecond, func(i int) { c.misbehave(ctx, i) }) })
	c.tasks.Go(func() { each(ctx, 7*time.Second, c.reconfigure) })
	c.tasks.Go(func() { each(ctx, 20*time.Second, func(i int) { drain(ctx, i) }) })
	c.tasks.Wait()
}

// publishers publish one broadcast, one behind the other: for some seconds each,
// and then they leave, vanish, or their token expires.
func (c *churn) publishers(ctx context.Context, at place, camera string) {
	for i := rand.IntN(len(ways)); ctx.Err() == nil; i++ {
		w := ways[i%len(ways)]
		if !w.saysPath() { // what is public may be watched only
			continue
		}
		lasts := long
		if i%4 == 0 {
			lasts = 2 * time.Second
		}
		p, err := at.join(ctx, w, lite.RolePublisher, lasts, nil)
		if err != nil {
			if lasts == long {
				c.lost(ctx, "a publisher cannot come", w, err)
			}
			continue
		}
		c.published.Add(1)
		first := uint64(0) // numbers begin anew every other time
		if i%2 == 0 {
			first = uint64(time.Now().Unix())
		}
		studio := &studio{ctx, camera, first}
		announced := p.origin.Announce(model.Route{Path: p.path(camera), Source: studio})
		switch ended := p.stay(ctx, between(3*time.Second, 10*time.Second)); {
		case ended && lasts == long:
			c.lost(ctx, "the session of a publisher has ended", w, p.conn.Err())
		case ended:
			c.expired.Add(1)
		case i%3 == 0:
			announced.Withdraw()
			p.stay(ctx, 200*time.Millisecond)
		}
		p.close(uint64(i % 3 * 40))
	}
}

// viewers come every 100 ms, by every way in turn.
func (c *churn) viewers(ctx context.Context) {
	const most = 80 // beyond it the machine is slower than its viewers
	places := make(chan struct{}, most)
	each(ctx, 100*time.Millisecond, func(i int) {
		select {
		case places <- struct{}{}:
			c.tasks.Go(func() {
				defer func() { <-places }()
				c.view(ctx, i)
			})
		default:
			c.skipped.Add(1)
		}
	})
}

// view is one viewer's visit.
func (c *churn) view(ctx context.Context, i int) {
	w := ways[i%len(ways)]
	i += i / len(ways) // what it does next time is another thing
	lasts, stay := long, between(200*time.Millisecond, 4*time.Second)
	if i%5 == 0 && w.saysPath() {
		lasts, stay = time.Second, time.Minute // the relay must end it
	}
	p, err := c.place.join(ctx, w, lite.RoleSubscriber, lasts, nil)
	if err != nil {
		if lasts == long {
			c.lost(ctx, "a viewer cannot come", w, err)
		}
		return
	}
	t := c.tallies[w]
	t.joined.Add(1)
	inside, leave := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { c.watch(inside, p, t, i, cameras[i%len(cameras)], "video") })
	if i%11 == 0 {
		watching.Go(func() { c.watch(inside, p, t, i, cameras[i%len(cameras)], "large") })
	}
	switch ended := p.stay(ctx, stay); {
	case ended && lasts == long:
		c.lost(ctx, "the session of a viewer has ended", w, p.conn.Err())
	case ended:
		c.expired.Add(1)
	case lasts != long && ctx.Err() == nil:
		c.fault("a viewer over %v is there %v after its token has expired", w, stay)
	}
	if i%3 == 0 { // else the session ends under them
		leave()
		watching.Wait()
	}
	p.close(uint64(i % 2 * 42))
	leave()
	watching.Wait()
}

// watch watches one track until ctx is done or the track ends, and fetches a group.
func (c *churn) watch(ctx context.Context, p *peer, t *tally, i int, camera, track string) {
	path := p.path(camera)
	if p.await(ctx, path) != nil {
		return
	}
	datagrams := model.NewDatagramQueue(nil)
	sub, err := p.origin.Subscribe(path, track, model.Peer{}, model.Options{
		MaxLatency: time.Duration(i%3) * time.Second, Priority: uint8(i), Datagrams: datagrams,
	})
	if err != nil {
		return
	}
	defer sub.Close()
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		for {
			d, err := datagrams.Next(ctx)
			if err != nil {
				return
			}
			if string(d.Payload) != string(pattern("video", d.Sequence, 0, 500)) {
				c.fault("a datagram of group %d is %.60q", d.Sequence, d.Payload)
			}
			t.datagrams.Add(1)
		}
	})
	if i%4 == 1 {
		reading.Go(func() { c.fetch(ctx, p, t, path, track, i) })
	}
	for {
		r, err := sub.Next(ctx)
		if err != nil {
			return
		}
		reading.Go(func() { c.read(ctx, t, track, r) })
	}
}

// read reads one group and counts what came.
func (c *churn) read(ctx context.Context, t *tally, track string, r *model.Reader) {
	frames, err := readGroup(ctx, track, r)
	t.frames.Add(int64(frames))
	t.groups.Add(1)
	if wrong, ok := errors.AsType[*wrongError](err); ok {
		c.fault("%v", wrong)
	}
}

// fetch asks for single groups: the latest, and any.
func (c *churn) fetch(ctx context.Context, p *peer, t *tally, path model.Path, track string, i int) {
	for _, options := range []model.FetchOptions{{Latest: true}, {Group: uint64(i % 50)}} {
		f, err := p.origin.Fetch(path, track, model.Peer{}, options)
		if err != nil {
			return
		}
		if r, err := f.Reader(ctx); err == nil {
			c.read(ctx, t, track, r)
			t.fetched.Add(1)
		}
		f.Close()
	}
}

// stalling is a viewer that never reads, and comes again when it was thrown out or
// has had its time: a group that the relay cuts gives a connection its credit back
// though nobody has read it, so that bytes move and the relay has patience.
func (c *churn) stalling(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		w := way{[]transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket}[i%3], lite.Lite06}
		p, err := c.place.join(ctx, w, lite.RoleSubscriber, long, newDeaf)
		if err != nil {
			c.lost(ctx, "a stalled viewer cannot come", w, err)
			continue
		}
		inside, leave := context.WithCancel(ctx)
		var asking sync.WaitGroup
		for _, camera := range cameras {
			asking.Go(func() {
				path := p.path(camera)
				for p.await(inside, path) == nil {
					sub, err := p.origin.Subscribe(path, "large", model.Peer{}, model.Options{MaxLatency: time.Minute})
					if err != nil {
						return
					}
					_, _ = sub.Next(inside) // there is none, but the track may end
					sub.Close()
				}
			})
		}
		switch ended := p.stay(ctx, 30*time.Second); {
		case ended && late(p.conn.Err()):
			c.late.Add(1)
		case ended && ctx.Err() == nil:
			c.stalled.Add(1)
		}
		leave()
		p.close(0)
		asking.Wait()
	}
}

// role is the environment variable that makes the test binary a crowd that is to
// be killed; its value is the place as JSON.
const role = "MOQSOAK_CROWD"

// kill starts a process with a publisher and viewers, and kills it.
func (c *churn) kill(ctx context.Context, i int) {
	self, err := os.Executable()
	if err != nil {
		c.fault("%v", err)
		return
	}
	text, err := json.Marshal(c.place)
	if err != nil {
		c.fault("%v", err)
		return
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), role+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.fault("%v", err)
		return
	}
	select {
	case <-time.After(between(2*time.Second, 4*time.Second)):
	case <-ctx.Done():
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.killed.Add(1)
}

// crowd is what kill starts: it publishes one of the cameras too, so that viewers
// of others lose their publisher in the middle of a group.
func crowd(ctx context.Context, at place) {
	c := newChurn(at, nil, "", func(string, ...any) {})
	c.tasks.Go(func() { c.publishers(ctx, at, cameras[rand.IntN(len(cameras))]) })
	for range 4 {
		c.tasks.Go(func() { c.view(ctx, rand.IntN(1<<20)) })
	}
	c.tasks.Wait()
}

// browse asks for something over HTTP.
func (c *churn) browse(i int) {
	token, err := c.place.token(long)
	if err != nil {
		c.fault("%v", err)
		return
	}
	page := []string{
		"fetch/live/" + cameras[i/4%3] + "/video?jwt=" + token,
		fmt.Sprintf("fetch/live/%s/large?group=%d", cameras[i/4%3], i%60), // everyone may watch
		"announced/live?jwt=" + token,
		"health",
	}[i%4]
	status, _, err := get("http://" + c.place.Address + "/" + page)
	// A group that is cut short ends its answer early: an error here, and no fault.
	if err == nil && status == http.StatusOK {
		c.pages.Add(1)
	}
}

// misbehave comes with a bad token, or with bytes that mean nothing.
func (c *churn) misbehave(ctx context.Context, i int) {
	switch w := ways[i%len(ways)]; {
	case i%4 == 0:
		c.noise("tcp", i)
	case i%4 == 1:
		c.noise("udp", i)
	case w.saysPath():
		conn, err := c.place.dial(ctx, w, "/live?jwt=nonsense")
		if err != nil {
			c.refused.Add(1)
			return
		}
		conn.Close(0, "") // raw QUIC: the path comes in SETUP, which never does
	}
}

// noise sends bytes that mean nothing.
func (c *churn) noise(network string, i int) {
	conn, err := net.DialTimeout(network, c.place.Address, 30*time.Second)
	if err != nil {
		c.fault("%v", err)
		return
	}
	defer conn.Close()
	b := make([]byte, 1+i%1400)
	for at := range b {
		b[at] = byte(rand.Uint32())
	}
	_, _ = conn.Write(b)
}

// reconfigure changes the live file.
func (c *churn) reconfigure(i int) {
	cache := []int{32, 8, 1}[i%3]
	if err := c.relay.reconfigure(cache, 2+i%4, 2+i%3, []int{0, 1, 4, 0, 2}[i%5]); err != nil {
		c.fault("%v", err)
	}
	if i%2 == 0 {
		_ = c.relay.cmd.Process.Signal(syscall.SIGHUP)
	}
}
