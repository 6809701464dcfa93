package controllers

import (
	"slices"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// configurationApplied judges whether the pods work by what the spec asks for, by
// their own words: a mounted file is not yet one that was read.
func configurationApplied(o observation) verdict {
	pods, v := answers(o)
	unasked := slices.ContainsFunc(pods, pod.unasked)
	switch {
	case v.status != "":
		return v
	case unasked && o.wanted() == (hashes{o.relay.Status.ConfigHash, o.relay.Status.LiveConfigHash}):
		return lastKnown(o, v1alpha1.ConditionConfigurationApplied)
	case unasked:
		return isUnknown(v1alpha1.ReasonPending, "not every pod was asked about the newest configuration yet")
	}
	for _, find := range []func(o observation, p pod) verdict{liveRejected, rolloutPending, livePending, statusUnreachable} {
		if v := firstFinding(o, pods, find); v.status != "" {
			return v
		}
	}
	return isTrue(v1alpha1.ReasonConverged, "every ready pod works by the newest configuration")
}

// hashes are those of the two files that a pod works by.
type hashes struct{ config, live string }

// wanted are the hashes that pods should report: of what was rendered, else of what
// stands in the status.
func (o observation) wanted() hashes {
	if o.mode == "" {
		return hashes{o.relay.Status.ConfigHash, o.relay.Status.LiveConfigHash}
	}
	return hashes{o.configHash, o.liveConfigHash}
}

func liveRejected(o observation, p pod) verdict {
	r := p.reading
	if r.Unreachable || r.Rejected == "" || r.LiveHash == o.wanted().live {
		return verdict{}
	}
	return isFalse(v1alpha1.ReasonLiveReloadRejected, "%s works on by its old configuration, because it refuses the new one: %s", p.where(), r.Rejected)
}

func rolloutPending(o observation, p pod) verdict {
	if p.reading.Unreachable || p.reading.ConfigHash == o.wanted().config {
		return verdict{}
	}
	return isFalse(v1alpha1.ReasonRolloutPending, "%s runs an older configuration, which only a new pod changes; Progressing says how far the rollout is", p.where())
}

func livePending(o observation, p pod) verdict {
	if p.reading.Unreachable || p.reading.LiveHash == o.wanted().live {
		return verdict{}
	}
	return isFalse(v1alpha1.ReasonLiveReloadPending, "%s has not read the newest configuration yet; its node brings it within about 90 s", p.where())
}
