package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// sendPacket sends one datagram from a socket that nobody knows.
func sendPacket(t *testing.T, address string, packet []byte) {
	t.Helper()
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(packet); err != nil {
		t.Fatal(err)
	}
}

// newPair makes a pair with a key of its own.
func newPair(t *testing.T) *tls.Certificate {
	t.Helper()
	pair, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func TestAReplacedKeyIsKnownForOneDayAndShownToWhoHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := newPair(t), newPair(t), newPair(t)
		var keys peerKeys
		if _, err := keys.pair(keyHash(one.Leaf)); err != errNoCertificate {
			t.Errorf("without a certificate: %v", err)
		}
		keys.use(one, time.Now())
		<-time.After(48 * time.Hour) // the current one has no end
		keys.use(two, time.Now())
		<-time.After(20 * time.Hour)
		keys.use(three, time.Now())
		wantKeys := func(when string, known ...*tls.Certificate) {
			t.Helper()
			for i, pair := range []*tls.Certificate{one, two, three} {
				want := false
				for _, k := range known {
					want = want || k == pair
				}
				if got := keys.knows(pair.Leaf, time.Now()); got != want {
					t.Errorf("%s: key %d is known: %v, want %v", when, i+1, got, want)
				}
			}
		}
		wantKeys("after the second change", one, two, three)
		for i, pair := range []*tls.Certificate{one, two, three} {
			if got, _ := keys.pair(keyHash(pair.Leaf)); got != pair {
				t.Errorf("to a peer with key %d another pair is shown", i+1)
			}
		}
		if got, _ := keys.pair([sha256.Size]byte{1}); got != three {
			t.Error("to a peer with an unknown key another pair than the current one is shown")
		}
		<-time.After(4*time.Hour + time.Second)
		wantKeys("24 hours after the first change", two, three)
		<-time.After(20 * time.Hour)
		wantKeys("24 hours after the second change", three)
		keys.use(two, time.Now()) // back again
		wantKeys("back", two, three)
	})
}

func TestARenewedCertificateWithTheSameKeyChangesNothing(t *testing.T) {
	one := newPair(t)
	renewed := *one
	var keys peerKeys
	keys.use(one, time.Now())
	keys.use(&renewed, time.Now())
	if len(keys.keys) != 1 || keys.keys[0].pair != &renewed {
		t.Errorf("%d keys are held, want one, with the newer certificate", len(keys.keys))
	}
}

// knock dials a peer port with a client's own TLS and returns how the attempt ended,
// be it at the dial or after it: a TLS client is done before the server has judged it.
func knock(t *testing.T, address string, conf *tls.Config, protocols ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	conf.InsecureSkipVerify = true
	conn, err := quic.Dial(ctx, address, quic.DialConfig{TLS: conf, Protocols: protocols})
	if err != nil {
		return err
	}
	select {
	case <-conn.Done():
		return conn.Err()
	case <-ctx.Done():
		t.Fatal("the peer port keeps the connection")
		return nil
	}
}

// showing presents that certificate, whatever is asked for.
func showing(pair *tls.Certificate) *tls.Config {
	return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }}
}

func TestOnlyTheKeyOpensThePeerPort(t *testing.T) {
	relays := newMesh(t, 2, nil)
	server := relays[0]
	ours, err := server.peers.keys.pair([sha256.Size]byte{})
	if err != nil {
		t.Fatal(err)
	}
	stolen := &tls.Certificate{Certificate: ours.Certificate, PrivateKey: newPair(t).PrivateKey}
	tests := []struct {
		name    string
		conf    *tls.Config
		counted int64
	}{
		{"no certificate", &tls.Config{}, 1},
		{"another key", showing(newPair(t)), 1},
		{"our certificate without its key", showing(stolen), 0}, // TLS itself refuses the signature
		{"another key, asked to resume", resuming(newPair(t)), 1},
	}
	for _, tt := range tests {
		before := server.Status().Cluster.Refused
		if err := knock(t, server.addresses.Peer, tt.conf, "moq-lite-07-wip", "moq-lite-06"); err == nil {
			t.Errorf("%s: let in", tt.name)
		}
		if got := server.Status().Cluster.Refused - before; got != tt.counted {
			t.Errorf("%s: %d refusals are counted, want %d", tt.name, got, tt.counted)
		}
	}
	before := server.Status().Cluster.Refused
	for _, protocol := range []string{"h2", "moq-lite-99"} {
		if err := knock(t, server.addresses.Peer, showing(ours), protocol); err == nil {
			t.Errorf("%s: let in", protocol)
		}
	}
	if got := server.Status().Cluster.Refused; got != before {
		t.Errorf("a protocol that is not spoken counts as a refused key")
	}
	awaitWhole(t, relays...)
	if got := server.Status().Sessions; got != 0 {
		t.Errorf("%d sessions", got)
	}
}

// resuming has a cache for tickets.
func resuming(pair *tls.Certificate) *tls.Config {
	conf := showing(pair)
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return conf
}

func TestThePeerPortGivesNoTicketsToResumeWith(t *testing.T) {
	server := newMesh(t, 1, nil)[0]
	ours, err := server.peers.keys.pair([sha256.Size]byte{})
	if err != nil {
		t.Fatal(err)
	}
	cache := &countingCache{}
	conf := showing(ours)
	conf.ClientSessionCache = cache
	conf.InsecureSkipVerify = true
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	conn, err := quic.Dial(ctx, server.addresses.Peer, quic.DialConfig{TLS: conf, Protocols: []string{"moq-lite-07-wip"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(0, "")
	if _, err := conn.AcceptReceiveStream(ctx); err != nil { // SETUP: the handshake is over, a ticket would be there
		t.Fatal(err)
	}
	if cache.puts > 0 {
		t.Errorf("%d tickets came, want none", cache.puts)
	}
}

// countingCache counts tickets.
type countingCache struct{ puts int }

func (c *countingCache) Get(string) (*tls.ClientSessionState, bool) { return nil, false }
func (c *countingCache) Put(string, *tls.ClientSessionState)        { c.puts++ }

func TestARelayWithAnotherKeyIsRefusedCountedAndNamedWithWhatToDo(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	putPair(t, ours)
	putPair(t, theirs)
	one, two, stranger := openRelay(t, ours, nil), openRelay(t, ours, nil), openRelay(t, theirs, nil)
	all := []*opened{one, two, stranger}
	relays := []*running{one.run(t, all...), two.run(t, all...), stranger.run(t, all...)}
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	for i, want := range []struct{ expected, connected int }{{2, 1}, {2, 1}, {2, 0}} {
		await(ctx, t, fmt.Sprintf("relay %d to have found who is with it", i), func() bool {
			c := relays[i].Status().Cluster
			return c.Expected == want.expected && c.Connected == want.connected && c.Refused > 0
		})
	}
	for _, line := range []string{"its TLS key is none of ours: give all relays of a mesh the same tls.directories", "remote=" + stranger.addresses.Peer} {
		if !strings.Contains(one.log.String(), line) {
			t.Errorf("the log of a relay of the mesh does not have %q", line)
		}
	}
	for _, p := range relays[0].Status().Cluster.Peers {
		if p.Address == stranger.addresses.Peer && (p.State != "Connecting" || !strings.Contains(p.Error, "is none of ours")) {
			t.Errorf("the stranger is shown as %+v", p)
		}
	}
}

func TestAKeyIsReplacedUnderLoadWithoutACut(t *testing.T) {
	directories := []string{t.TempDir(), t.TempDir()}
	putPair(t, directories[0])
	copyPair(t, directories[0], directories[1])
	one, two := openRelay(t, directories[0], nil), openRelay(t, directories[1], nil)
	relays := []*running{one.run(t, one, two), two.run(t, one, two)}
	awaitWhole(t, relays...)
	links := relays[0].links()

	const groups = 12
	publisher := newClient(t, relays[0].dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	next := make(chan struct{})
	newStudio(t, publisher.origin, "room/a", inSteps(groups, next))
	viewer := newClient(t, relays[1].dial(t, transport.QUIC, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room/a")
	result := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), failsafe)
		defer cancel()
		result <- checkAll(ctx, viewer.origin, "room/a", groups)
	}()
	awaitSubscribers(t, relays[0].origin, 1)
	step := func(n int) {
		for range n {
			next <- struct{}{}
		}
	}
	step(4)
	putPair(t, directories[0]) // the first relay sees the new key before the second
	one.certificates.load()
	step(4)
	// A link that breaks now comes back: the newer relay still shows the old key.
	copyPair(t, directories[0], directories[1])
	two.certificates.load()
	step(4)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if now := relays[0].links(); len(now) != 1 || now[0] != links[0] {
		t.Error("the link was cut by the change of keys")
	}
}

func TestALinkComesBackWhileOnlyOneSideHasTheNewKey(t *testing.T) {
	directories := []string{t.TempDir(), t.TempDir()}
	putPair(t, directories[0])
	copyPair(t, directories[0], directories[1])
	one, two := openRelay(t, directories[0], nil), openRelay(t, directories[1], nil)
	relays := []*running{one.run(t, one, two), two.run(t, one, two)}
	awaitWhole(t, relays...)
	putPair(t, directories[0])
	one.certificates.load()
	old := relays[0].links()[0]
	old.conn.Close(0, "cut by the test")
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "another link", func() bool {
		links := relays[0].links()
		return len(links) == 1 && links[0] != old && relays[1].Status().Cluster.Connected == 1
	})
}

// copyPair copies a pair from one directory to another.
func copyPair(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"tls.crt", "tls.key"} {
		putFile(t, to, name, readFile(t, from, name))
	}
}

// inSteps publishes as publishAll does, a group for each value on next.
func inSteps(groups int, next <-chan struct{}) func(context.Context, *model.Producer) error {
	return func(ctx context.Context, p *model.Producer) error {
		for g := range groups {
			select {
			case <-next:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := publishGroup(ctx, p, g); err != nil {
				return err
			}
		}
		p.Finish(uint64(groups))
		p.Close()
		return nil
	}
}

func TestRefusalsAreToldAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		gate := &peerGate{keys: new(peerKeys), log: slog.New(slog.NewTextHandler(&log, nil))}
		gate.keys.use(newPair(t), time.Now())
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{newPair(t).Leaf}}
		for range 30 {
			for range 10 {
				if gate.check(state, "192.0.2.1:5") == nil {
					t.Fatal("let in")
				}
			}
			<-time.After(100 * time.Millisecond)
		}
		if told := strings.Count(log.String(), "refused a connection"); told != 3 || gate.refused.Load() != 300 {
			t.Errorf("%d of 300 refusals in three seconds are told and %d counted, want 3 and all", told, gate.refused.Load())
		}
	})
}
