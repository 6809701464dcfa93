package relay

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/cluster"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// loopback answers every name with 127.0.0.1: relays of a test differ in their ports.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// opened is a relay that listens and does not run yet.
type opened struct {
	*Server
	options   Options
	addresses Addresses
	log       *syncBuffer
}

// openRelay opens a relay with the key in directory.
func openRelay(t *testing.T, directory string, change func(*config.Config)) *opened {
	t.Helper()
	cfg := config.Development()
	cfg.Listen, cfg.Status.Listen, cfg.Cluster.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.TLS = config.TLS{Mode: config.Files, Directories: []string{directory}}
	if change != nil {
		change(&cfg)
	}
	loaded, err := config.Load(config.Source{Base: &cfg})
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{options: Options{Loaded: loaded, Log: new(syncBuffer), Resolver: loopback{}}}
	o.log = o.options.Log.(*syncBuffer)
	if o.Server, err = New(o.options); err != nil {
		t.Fatal(err)
	}
	if o.addresses, err = o.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

// run runs it as one of a mesh with others.
func (o *opened) run(t *testing.T, others ...*opened) *running {
	t.Helper()
	o.cfg.Cluster.Peers = nil
	for _, other := range others {
		address := netip.MustParseAddrPort(other.addresses.Peer)
		o.cfg.Cluster.Peers = append(o.cfg.Cluster.Peers, fmt.Sprintf("dns+https://relays:%d", address.Port()))
	}
	o.cluster = o.newCluster(o.options)
	r := &running{Server: o.Server, addresses: o.addresses, ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { r.ended <- o.Run(ctx) }()
	t.Cleanup(func() {
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("the relay ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the relay with hop %d:\n%s", o.origin.ID(), o.log)
		}
	})
	text, _ := o.certificates.hash()
	raw, _ := hex.DecodeString(text)
	copy(r.hash[:], raw)
	return r
}

// newMesh runs n relays with one key, each of which knows all.
func newMesh(t *testing.T, n int, change func(*config.Config)) []*running {
	t.Helper()
	directory := t.TempDir()
	putPair(t, directory)
	all := make([]*opened, n)
	for i := range all {
		all[i] = openRelay(t, directory, change)
	}
	out := make([]*running, n)
	for i, o := range all {
		out[i] = o.run(t, all...)
	}
	awaitWhole(t, out...)
	return out
}

// links are the sessions of a relay with others.
func (r *running) links() (out []*openSession) {
	open, _ := r.sessions.list()
	for _, o := range open {
		if o.isLink() {
			out = append(out, o)
		}
	}
	return out
}

// awaitWhole waits until each relay has one session with each other, and no more.
func awaitWhole(t *testing.T, relays ...*running) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	for i, r := range relays {
		await(ctx, t, fmt.Sprintf("relay %d to be connected", i), func() bool {
			c := r.Status().Cluster
			return c.Expected == len(relays)-1 && c.Connected == c.Expected && len(r.links()) == c.Expected
		})
	}
}

// awaitLinksSince waits until every link of one, at both of its ends, is newer than that.
func awaitLinksSince(t *testing.T, since time.Time, one *running, relays ...*running) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	for i, r := range relays {
		await(ctx, t, fmt.Sprintf("relay %d to have new links", i), func() bool {
			links := r.links()
			for _, o := range links {
				if (r == one || o.session.Stats().PeerHop == one.origin.ID()) && !o.started.After(since) {
					return false
				}
			}
			return len(links) >= len(relays)-1
		})
	}
}

// wantRunning fails the test if the relay ends within a few looks of a drain.
func (r *running) wantRunning(t *testing.T, why string) {
	t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		t.Fatal("the relay has ended while " + why)
	case <-time.After(3 * drainLook):
	}
}

// flow is what the sessions between relays have counted.
func (r *running) flow(read func(admin.Traffic) int64) (sum int64) {
	for _, t := range r.Stats().Traffic {
		if t.Tier == string(cluster.Peer) {
			sum += read(t)
		}
	}
	return sum
}

func asked(t admin.Traffic) int64  { return t.Publisher.Subscriptions }
func served(t admin.Traffic) int64 { return t.Subscriber.Subscriptions }

// waitFor holds a publisher back until start is closed.
func waitFor(start <-chan struct{}, write func(context.Context, *model.Producer) error) func(context.Context, *model.Producer) error {
	return func(ctx context.Context, p *model.Producer) error {
		select {
		case <-start:
			return write(ctx, p)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestViewersOnThreeRelaysGetEveryByteOverOneRequestPerRelay(t *testing.T) {
	const groups, viewers = 4, 5
	relays := newMesh(t, 3, nil)
	publisher := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	start := make(chan struct{})
	newStudio(t, publisher.origin, "room/a", waitFor(start, publishAll(groups)))
	results := make(chan error, len(relays)*viewers)
	for _, r := range relays {
		for range viewers {
			viewer := newClient(t, r.dial(t, transport.WebTransport, wire.Lite06), wire.RoleSubscriber)
			awaitRoute(t, viewer.origin, "room/a")
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), failsafe)
				defer cancel()
				results <- checkAll(ctx, viewer.origin, "room/a", groups)
			}()
		}
	}
	awaitSubscribers(t, relays[0].origin, viewers+2) // one for each other relay
	awaitSubscribers(t, relays[1].origin, viewers)
	awaitSubscribers(t, relays[2].origin, viewers)
	for i, want := range []struct{ asked, served int64 }{{0, 2}, {1, 0}, {1, 0}} {
		if got := relays[i].flow(asked); got != want.asked {
			t.Errorf("relay %d asks other relays for %d tracks, want %d", i, got, want.asked)
		}
		if got := relays[i].flow(served); got != want.served {
			t.Errorf("relay %d is asked by other relays for %d tracks, want %d", i, got, want.served)
		}
	}
	close(start)
	for range len(relays) * viewers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if got := relays[0].Status().Sessions; got != 1+viewers {
		t.Errorf("%d sessions of clients, want %d: those with relays do not count", got, 1+viewers)
	}
}

func TestALinkThatIsCutComesBackAndRoutesWithIt(t *testing.T) {
	relays := newMesh(t, 3, nil)
	publisher := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	start := make(chan struct{})
	close(start)
	newStudio(t, publisher.origin, "room/a", waitFor(start, publishAll(2)))
	for round := range 3 {
		cut := time.Now()
		for _, o := range relays[round].links() {
			o.conn.Close(uint64(wire.SessionInternalError), "cut by the test")
		}
		awaitLinksSince(t, cut, relays[round], relays...)
		awaitWhole(t, relays...)
	}
	viewer := newClient(t, relays[2].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room/a")
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	if err := checkAll(ctx, viewer.origin, "room/a", 2); err != nil {
		t.Error(err)
	}
}

func TestLinksAreNotCountedByTheLimitsOfClients(t *testing.T) {
	relays := newMesh(t, 3, func(c *config.Config) { c.Limits.Sessions, c.Limits.SessionsPerIP = 1, 1 })
	client := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the client to be let in", func() bool { return relays[0].Status().Sessions == 1 })
	client.conn.Close(0, "")
	awaitWhole(t, relays...)
}

func TestTheStatusPortTellsOfTheMesh(t *testing.T) {
	relays := newMesh(t, 2, func(c *config.Config) { c.Cluster.Node = "" })
	var doc struct {
		Misrouted uint64
		Cluster   struct {
			ID                           uint64
			Expected, Connected, Refused int
			Peers                        []struct{ Address, State string }
			Upstreams                    []struct{ URL string }
		}
	}
	at := "http://" + relays[0].addresses.Status
	decode(t, at+"/statusz", &doc)
	if c := doc.Cluster; c.ID != relays[0].origin.ID() || c.Expected != 1 || c.Connected != 1 || len(c.Peers) != 2 || c.Refused != 0 || c.Upstreams == nil {
		t.Errorf("the status document says %+v", doc)
	}
	var lines []struct{ Kind, Protocol string }
	decode(t, at+"/sessions", &lines)
	if len(lines) != 1 || lines[0].Kind != "peer" || lines[0].Protocol != "moq-lite-07-wip" {
		t.Errorf("the sessions are %+v, want one peer that speaks 07", lines)
	}
	_, body, _ := get(t, at+"/metrics")
	for _, want := range []string{"moq_relay_peers_expected 1\n", "moq_relay_peers_connected 1\n", `moq_relay_sessions{tier="peer",transport="quic"} 1` + "\n"} {
		if !bytes.Contains([]byte(body), []byte(want)) {
			t.Errorf("/metrics does not have %q", want)
		}
	}
}

func TestAPacketOfNoConnectionIsCountedForItsPort(t *testing.T) {
	relay := newMesh(t, 1, nil)[0]
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	short := append([]byte{0x40}, bytes.Repeat([]byte{0xab}, 60)...)
	sendPacket(t, relay.addresses.UDP, short)
	sendPacket(t, relay.addresses.Peer, short)
	sendPacket(t, relay.addresses.Peer, short)
	await(ctx, t, "three packets to be counted", func() bool { return relay.Status().Misrouted == 3 })
	if got := relay.Stats().Misrouted; got["client"] != 1 || got["peer"] != 2 {
		t.Errorf("counted %v, want 1 at the client port and 2 at the peer port", got)
	}
}

// awaitEnd waits until a relay has ended by itself.
func (r *running) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		if err != nil {
			t.Fatalf("the relay ended with %v", err)
		}
	case <-time.After(failsafe):
		t.Fatal("the relay does not end")
	}
}

func TestADrainIsNotHeldByLinksOverWhichNothingIsAskedFor(t *testing.T) {
	relays := newMesh(t, 3, func(c *config.Config) { c.Drain.TimeoutSeconds = 86400 })
	viewer := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the client to be let in", func() bool { return relays[0].Status().Sessions == 1 })
	relays[0].Drain()
	await(ctx, t, "both links to be told", func() bool { return relays[0].flow(func(t admin.Traffic) int64 { return t.GoawaySent }) == 2 })
	relays[0].wantRunning(t, "a client is there")
	viewer.conn.Close(0, "")
	relays[0].awaitEnd(t)
}

func TestWhatIsPublishedAtARelayThatDrainsCanStillBeWatchedElsewhere(t *testing.T) {
	relays := newMesh(t, 2, func(c *config.Config) { c.Drain.TimeoutSeconds = 86400 })
	stays := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite03), wire.RolePublisher) // knows no GOAWAY
	start := make(chan struct{})
	newStudio(t, stays.origin, "room/a", waitFor(start, publishAll(1)))
	awaitRoute(t, relays[1].origin, "room/a")
	relays[0].Drain()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the other relay to be told", func() bool {
		return relays[1].flow(func(t admin.Traffic) int64 { return t.GoawayReceived }) == 1
	})
	viewer := newClient(t, relays[1].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room/a")
	result := make(chan error, 1)
	go func() { result <- checkAll(ctx, viewer.origin, "room/a", 1) }()
	awaitSubscribers(t, relays[0].origin, 1)
	close(start)
	if err := <-result; err != nil {
		t.Error(err)
	}
	stays.conn.Close(0, "")
	relays[0].awaitEnd(t)
}

func TestADrainWaitsForWhatOtherRelaysTakeFromHere(t *testing.T) {
	relays := newMesh(t, 2, func(c *config.Config) { c.Drain.TimeoutSeconds = 86400 })
	start := make(chan struct{})
	studio := newStudio(t, relays[0].origin, "room/a", waitFor(start, publishAll(1))) // no session of a client holds the drain
	viewer := newClient(t, relays[1].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room/a")
	result := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), failsafe)
		defer cancel()
		result <- checkAll(ctx, viewer.origin, "room/a", 1)
	}()
	awaitSubscribers(t, relays[0].origin, 1)
	relays[0].Drain()
	relays[0].wantRunning(t, "another takes a track from it")
	close(start)
	if err := <-result; err != nil {
		t.Error(err)
	}
	relays[0].awaitEnd(t)
	studio.tasks.Wait()
}
