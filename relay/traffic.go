package relay

import (
	"cmp"
	"maps"
	"sync"

	"github.com/moqrelay/operator/relay/admin"
	"github.com/moqrelay/operator/relay/auth"
	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
)

const (
	// mostTiers bounds the values of the label "tier": a time series database pays for each.
	mostTiers = 100
	// otherTier is the tier of those beyond.
	otherTier = "other"
	// overHTTP is the transport of what HTTP requests fetch.
	overHTTP transport.Kind = "http"
)

// traffic has the counters of each transport and tier, for as long as the process lives.
type traffic struct {
	mu     sync.Mutex
	tiers  map[string]bool
	counts map[trafficKey]*tierCounters
}

type trafficKey struct {
	kind transport.Kind
	tier string
}

// tierCounters count for one transport and tier.
type tierCounters struct {
	session.Counters

	// guarded by sessions.mu
	opened int64
	closed map[string]int64
}

// tiers are those that grants may have.
func tiers(cfg config.Auth) []string {
	if cfg.Mode == config.AuthNone {
		return nil
	}
	return []string{auth.TierToken, auth.TierCertificate, auth.TierPublic}
}

// newTraffic has counters for the tiers that are known, from the start.
func newTraffic(tiers ...string) *traffic {
	t := &traffic{tiers: make(map[string]bool), counts: make(map[trafficKey]*tierCounters)}
	for _, tier := range append(tiers, admin.DefaultTier) {
		for _, kind := range admin.Transports {
			t.of(transport.Kind(kind), tier)
		}
	}
	return t
}

// of returns the counters of a transport and a grant's tier.
func (t *traffic) of(kind transport.Kind, tier string) *tierCounters {
	tier = cmp.Or(tier, admin.DefaultTier)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.tiers[tier] {
		if len(t.tiers) >= mostTiers {
			tier = otherTier
		}
		t.tiers[tier] = true
	}
	key := trafficKey{kind, tier}
	if t.counts[key] == nil {
		t.counts[key] = &tierCounters{closed: make(map[string]int64)}
	}
	return t.counts[key]
}

// all returns every counter that there is.
func (t *traffic) all() map[trafficKey]*tierCounters {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// read returns what was counted in sessions of one transport and tier.
func (c *tierCounters) read(key trafficKey) admin.Traffic {
	return admin.Traffic{
		Transport: string(key.kind), Tier: key.tier,
		Publisher: admin.Flow{
			Bytes: c.In.Bytes.Load(), Frames: c.In.Frames.Load(), Groups: c.In.Groups.Load(), Datagrams: c.In.Datagrams.Load(),
			Fetches: c.UpstreamFetches.Load(), Subscriptions: c.Pulls.Open.Load(), Opened: c.Pulls.Total.Load(),
			Announcements: c.AnnouncementsIn.Load(),
		},
		Subscriber: admin.Flow{
			Bytes: c.Out.Bytes.Load(), Frames: c.Out.Frames.Load(), Groups: c.Out.Groups.Load(), Datagrams: c.Out.Datagrams.Load(),
			Fetches: c.Fetches.Load(), Subscriptions: c.Subscriptions.Open.Load(), Opened: c.Subscriptions.Total.Load(),
			Announcements: c.AnnouncementsOut.Load(),
			Errors: map[string]int64{
				"not_found": c.Refused.NotFound.Load(), "unroutable": c.Refused.Unroutable.Load(), "timeout": c.Refused.Timeout.Load(),
				"limit": c.Refused.Limit.Load(), "forbidden": c.Refused.Forbidden.Load(), "going_away": c.Refused.GoingAway.Load(),
				"other": c.Refused.Other.Load(),
			},
		},
		Resets: map[string]int64{
			"expired": c.Resets.Expired.Load(), "lagged": c.Resets.Lagged.Load(), "cancelled": c.Resets.Cancelled.Load(),
			"upstream": c.Resets.Upstream.Load(), "too_large": c.Resets.TooLarge.Load(), "evicted": c.Resets.Evicted.Load(),
		},
		Strays: map[string]int64{
			"malformed": c.Malformed.Load(), "unknown": c.Unknown.Load(), "unwanted": c.Stray.Load(),
		},
		ExpiredBytes: c.ExpiredBytes.Load(), Discarded: c.Discarded.Load(),
		GoawaySent: c.GoawaySent.Load(), GoawayReceived: c.GoawayReceived.Load(),
		FirstFrame: histogramOf(&c.FirstFrame),
	}
}

// histogramOf is the metrics' form.
func histogramOf(h *model.Histogram) admin.Histogram {
	s := h.Snapshot()
	out := admin.Histogram{Buckets: make(map[float64]uint64, len(s.Buckets)), Count: s.Count, Sum: s.Sum.Seconds()}
	for _, b := range s.Buckets {
		out.Buckets[b.UpTo.Seconds()] = b.Count
	}
	return out
}
