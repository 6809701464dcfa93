package cluster

import (
	"cmp"
	"slices"

	"github.com/moqrelay/operator/relay/status"
)

// Status is the neighbours of now. Refused is not this package's to know.
func (c *Cluster) Status() status.Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := status.Cluster{Node: c.cfg.Node, ID: c.cfg.ID, Peers: []status.Peer{}, Upstreams: []status.Upstream{}}
	known := make(map[uint64]bool) // hops behind targets
	for _, t := range c.targets {
		if t.kind == Upstream {
			out.Upstreams = append(out.Upstreams, t.upstreamLocked())
			continue
		}
		out.Peers = append(out.Peers, t.peerLocked())
		known[t.hop] = true
		if t.listed && t.state != self {
			out.Expected++
			if c.linkedLocked(t.hop) {
				out.Connected++
			}
		}
	}
	for l := range c.links {
		if l.target == nil && !l.met.IsZero() && !l.losing && !known[l.hop] {
			out.Peers = append(out.Peers, status.Peer{Address: l.conn.Info().Remote.String(), Hop: l.hop, State: string(connected), Since: l.met})
		}
	}
	slices.SortFunc(out.Peers, func(a, b status.Peer) int { return cmp.Compare(a.Address, b.Address) })
	slices.SortFunc(out.Upstreams, func(a, b status.Upstream) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Address, b.Address))
	})
	return out
}

func (t *target) peerLocked() status.Peer {
	return status.Peer{Address: t.host, Hop: t.hop, State: string(t.state), Since: t.since, Error: text(t.err)}
}

func (t *target) upstreamLocked() status.Upstream {
	return status.Upstream{URL: bare(t.url), Address: t.host, State: string(t.state), Since: t.since, Error: text(t.err)}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
