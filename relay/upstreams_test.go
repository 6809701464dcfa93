package relay

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/status"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// newEdge runs a relay that trusts the origin's certificate as an authority of upstreams.
func newEdge(t *testing.T, origin *guarded, upstreams ...config.Upstream) *running {
	t.Helper()
	directory := t.TempDir()
	cert, err := origin.certificates.get(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, directory, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	return newServer(t, func(c *config.Config) {
		c.Cluster.UpstreamsCA = directory + "/ca.pem"
		c.Cluster.Upstreams = upstreams
	})
}

// awaitUpstream waits until the edge shows one upstream that is as wanted.
func awaitUpstream(t *testing.T, edge *running, what string, is func(u status.Upstream) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, what, func() bool {
		c := edge.Status().Cluster
		return c != nil && len(c.Upstreams) == 1 && is(c.Upstreams[0])
	})
}

func TestAnUpstreamIsJoinedWithItsPathAndToken(t *testing.T) {
	origin := newGuarded(t, nil)
	token := origin.token(t, `{"root": "live", "put": [""], "get": [""]}`)
	edge := newEdge(t, origin, config.Upstream{URL: "https://" + origin.addresses.UDP + "/live?jwt=" + token})
	awaitUpstream(t, edge, "the upstream", func(u status.Upstream) bool {
		return u.State == "Connected" && u.URL == "https://"+origin.addresses.UDP+"/live" && u.Error == ""
	})
	if got := edge.Status().Sessions; got != 0 {
		t.Errorf("%d sessions of clients at the edge, want none", got)
	}

	start := make(chan struct{})
	publisher := newClient(t, edge.dial(t, transport.QUIC, wire.Lite06), wire.RolePublisher)
	newStudio(t, publisher.origin, "room/a", waitFor(start, publishAll(2)))
	awaitRoute(t, origin.origin, "live/room/a")
	newStudio(t, origin.origin, "live/room/b", waitFor(start, publishAll(2)))
	viewer := newClient(t, edge.dial(t, transport.WebTransport, wire.Lite06), wire.RoleSubscriber)
	awaitRoute(t, viewer.origin, "room/b")
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	results := make(chan error, 2)
	go func() { results <- checkAll(ctx, viewer.origin, "room/b", 2) }()
	go func() { results <- checkAll(ctx, origin.origin, "live/room/a", 2) }()
	awaitSubscribers(t, edge.origin, 2) // the viewer's, and the origin's for its own
	close(start)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestAnUpstreamThatIsNotTrustedOrRefusesIsShownWithTheReason(t *testing.T) {
	origin := newGuarded(t, nil)
	refused := newEdge(t, origin, config.Upstream{URL: "https://" + origin.addresses.UDP + "/live?jwt=secret"})
	awaitUpstream(t, refused, "a refused token", func(u status.Upstream) bool {
		return u.State == "Connecting" && strings.Contains(u.Error, "token") && !strings.Contains(u.Error, "secret")
	})
	stranger := newServer(t, func(c *config.Config) {
		c.Cluster.Upstreams = []config.Upstream{{URL: "https://" + origin.addresses.UDP}}
	})
	awaitUpstream(t, stranger, "a certificate of no authority", func(u status.Upstream) bool {
		return u.State == "Connecting" && strings.Contains(u.Error, "certificate")
	})
}

func TestAChangedListOfUpstreamsIsInForceWithoutARestart(t *testing.T) {
	origin := newGuarded(t, nil)
	edge := newEdge(t, origin)
	if c := edge.Status().Cluster; c != nil {
		t.Errorf("a relay without others shows %+v", c)
	}
	live := edge.cfg.Live()
	live.Upstreams = []config.Upstream{{URL: "dns+https://" + strings.Replace(origin.addresses.UDP, "127.0.0.1", "localhost", 1) + "/lobby"}}
	edge.use(&live)
	awaitUpstream(t, edge, "the new upstream", func(u status.Upstream) bool {
		return u.State == "Connected" && u.Address == origin.addresses.UDP
	})
	gone := edge.cfg.Live()
	edge.use(&gone)
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	await(ctx, t, "the upstream to be left", func() bool { return edge.Status().Cluster == nil && len(edge.links()) == 0 })
}
