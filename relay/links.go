package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/cluster"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/session/lite"
	"github.com/moqrelay/operator/relay/status"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/quic"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// Bounds of a connection to another relay. It carries what many clients share, so it
// may have more streams than theirs; one that is dead is noticed sooner.
const (
	linkStreams     = 65536
	linkIdleTimeout = 15 * time.Second
	linkKeepAlive   = 5 * time.Second
)

// hopID is this relay's id in hop lists as configured; 0: a random one.
func hopID(c config.Cluster) uint64 {
	if c.Node == "" {
		return 0
	}
	return cluster.NodeID(c.Node)
}

// newCluster is what looks for other relays.
func (s *Server) newCluster(o Options) *cluster.Cluster {
	c := s.cfg.Cluster
	return cluster.New(cluster.Config{
		Node: c.Node, ID: s.origin.ID(), Peers: c.Peers, Upstreams: c.Upstreams, UpstreamsFile: c.UpstreamsFile,
		Resolver: o.Resolver, Dial: s.dialRelay, Serve: s.serveLink, Log: s.log,
	})
}

// clustered reports whether there are other relays to speak of.
func (s *Server) clustered() bool {
	c := s.cfg.Cluster
	return c.Listen != "" || len(c.Peers) > 0 || c.UpstreamsFile != "" || len(s.live.Load().Upstreams) > 0
}

// linkProtocols are the tokens between relays, the preferred first: only that of 07
// can say which content is the same.
func (s *Server) linkProtocols() []string {
	first := wire.Lite07wip.String()
	out := []string{first}
	for _, name := range s.protocols() {
		if name != first {
			out = append(out, name)
		}
	}
	return out
}

// linkSettings are those of a connection to another relay.
func (s *Server) linkSettings() quic.Settings {
	settings := s.quicSettings()
	settings.MaxStreams = linkStreams
	settings.IdleTimeout, settings.KeepAlive = min(settings.IdleTimeout, linkIdleTimeout), linkKeepAlive
	return settings
}

// listenPeers opens the peer port.
func (s *Server) listenPeers(ctx context.Context) (err error) {
	if s.cfg.Cluster.Listen == "" {
		return nil
	}
	s.sockets.peer, err = quic.Listen(ctx, quic.Config{
		Settings: s.linkSettings(), Address: s.cfg.Cluster.Listen, TLS: s.peers.server(),
		Protocols: s.linkProtocols(), NoWebTransport: true,
		ReceiveBuffer: int(s.cfg.SocketBuffers.Receive), SendBuffer: int(s.cfg.SocketBuffers.Send),
	})
	if err != nil {
		return taken(fmt.Errorf("cluster.listen: %w", err), "--cluster-listen")
	}
	return nil
}

// servePeers serves whoever the peer port lets in, also while draining: what is
// published here is to be seen elsewhere until its publisher has left.
func (s *Server) servePeers(ctx context.Context) error {
	if s.sockets.peer == nil {
		return nil
	}
	for {
		conn, err := s.sockets.peer.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("peer port: %w", err)
		}
		s.sessions.running.Go(func() { s.cluster.Accept(conn) })
	}
}

// dialRelay opens a connection to another relay.
func (s *Server) dialRelay(ctx context.Context, to cluster.Address) (transport.Conn, error) {
	cfg := quic.DialConfig{
		Settings: s.linkSettings(), Protocols: s.linkProtocols(),
		ReceiveBuffer: int(s.cfg.SocketBuffers.Receive), SendBuffer: int(s.cfg.SocketBuffers.Send),
	}
	if to.Kind == cluster.Peer {
		cfg.TLS = s.peers.client(to.HostPort)
		return quic.Dial(ctx, to.HostPort, cfg)
	}
	tls, err := upstreamTLS(s.cfg.Cluster, to.ServerName)
	if err != nil {
		return nil, err
	}
	cfg.TLS = tls
	return quic.Dial(ctx, to.HostPort, cfg)
}

// serveLink runs a session with another relay until it ends. It has the whole tree of
// names, and no limit of clients counts it.
func (s *Server) serveLink(ctx context.Context, conn transport.Conn, link cluster.Link) error {
	info := conn.Info()
	version, err := wire.ParseVersion(info.Protocol)
	if err != nil {
		conn.Close(uint64(wire.SessionVersionNegotiationFail), "no such protocol")
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tier := string(link.Kind)
	counters := &s.traffic.of(info.Kind, tier).Counters
	open := &openSession{conn: conn, started: time.Now(), cancel: cancel, kind: tier}
	log := s.log.With("remote", info.Remote.String(), "kind", tier, "protocol", info.Protocol)
	open.session = lite.New(conn, version, lite.Config{
		Origin:      s.origin,
		RequestPath: link.RequestPath,
		Link:        &lite.Link{Price: link.Price, Met: link.Met, Stays: link.Kind == cluster.Peer},
		Counters:    counters,
		CountersFor: func(string) *session.Counters { return counters },
		OnGoaway:    func(string) { link.Goaway() },
		Log:         log,
	})
	s.sessions.addLink(open)
	s.sessions.grant(open, tier)
	link.Began(open.busy)
	if s.draining.Load() {
		s.sendGoaway(open)
	}
	err = open.session.Run(ctx)
	reason := s.sessions.remove(open, err, ctx.Err() != nil)
	logEnd(ctx, log.With("session", open.id), reason, err, time.Since(open.started))
	return err
}

// addLink takes a session with another relay in. None is refused.
func (s *sessions) addLink(o *openSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	o.id = s.nextID
	s.open[o.id] = o
	s.links++
}

// isLink reports whether the session is one with another relay of the configuration.
func (o *openSession) isLink() bool { return o.kind != "" }

// clients counts the open sessions of clients.
func (s *sessions) clients() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.clientsLocked())
}

// clientsLocked leaves other relays out.
func (s *sessions) clientsLocked() int { return len(s.open) - s.links }

// busy reports whether anything is asked for over the session, in either direction.
func (o *openSession) busy() bool {
	stats := o.session.Stats()
	return stats.Pulls > 0 || stats.Requests > 0
}

// holdsDrain reports whether a drain waits for the session: clients until they have
// left, other relays while they take something from here.
func (o *openSession) holdsDrain() bool { return !o.isLink() || o.session.Stats().Requests > 0 }

// linkTiers are the tiers of sessions with other relays, where some are configured.
func linkTiers(c config.Cluster) (tiers []string) {
	if c.Listen != "" || len(c.Peers) > 0 {
		tiers = append(tiers, string(cluster.Peer))
	}
	if c.UpstreamsFile != "" || len(c.Upstreams) > 0 {
		tiers = append(tiers, string(cluster.Upstream))
	}
	return tiers
}

// countLinks adds what is counted of other relays.
func (s *Server) countLinks(stats *admin.Stats) {
	dials := func(kind cluster.Kind) map[string]int64 {
		d := s.cluster.Counts(kind)
		return map[string]int64{"ok": d.OK.Load(), "failed": d.Failed.Load()}
	}
	stats.PeerDials, stats.UpstreamDials = dials(cluster.Peer), dials(cluster.Upstream)
	client, peer := s.misrouted()
	stats.Misrouted = map[string]int64{"client": int64(client), "peer": int64(peer)}
}

// clusterStatus is the document's part about other relays; nil where there are none.
func (s *Server) clusterStatus() *status.Cluster {
	if !s.clustered() {
		return nil
	}
	c := s.cluster.Status()
	c.Refused = s.peers.refused.Load()
	if s.sockets.peer != nil {
		if b, err := s.sockets.peer.Socket(); err == nil {
			c.Drops = b.Drops
		}
	}
	return &c
}

// misrouted are the packets of no connection, by UDP port.
func (s *Server) misrouted() (client, peer uint64) {
	if s.sockets.udp != nil {
		client = s.sockets.udp.Misrouted()
	}
	if s.sockets.peer != nil {
		peer = s.sockets.peer.Misrouted()
	}
	return client, peer
}
