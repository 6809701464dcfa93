package controllers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
)

// dataPlane judges what the pods say of themselves on their status ports. Ready
// depends on none of it: what nobody answers is unknown, and no outage.
func dataPlane(o observation) verdict {
	pods, v := answers(o)
	switch {
	case v.status != "":
		return v
	case slices.ContainsFunc(pods, pod.unasked):
		return lastKnown(o, v1alpha1.ConditionDataPlaneHealthy)
	}
	for _, find := range []func(o observation, p pod) verdict{kernelDrops, peersMissing, statusUnreachable} {
		if v := firstFinding(o, pods, find); v.status != "" {
			return v
		}
	}
	return isTrue(v1alpha1.ReasonHealthy, "no pod reports lost packets or a missing peer")
}

// answers are the pods whose status ports are asked. The verdict has a status when
// there is none.
func answers(o observation) ([]pod, verdict) {
	if o.deployment == nil {
		return nil, isUnknown(v1alpha1.ReasonPending, "there is no Deployment yet")
	}
	pods := asked(o.pods)
	if len(pods) == 0 {
		return nil, isUnknown(v1alpha1.ReasonNoPods, "no pod is ready, so that none can be asked")
	}
	return pods, verdict{}
}

// unasked says that nothing is known of a pod yet: it is new, or the operator is.
func (p pod) unasked() bool { return !p.reading.Asked() }

// asked are the pods whose status port is asked: a pod that is not ready, or
// leaves, has other troubles.
func asked(pods []pod) []pod {
	return slices.DeleteFunc(serving(pods), func(p pod) bool { return !p.ready() || p.Status.PodIP == "" })
}

// lastKnown is what stood there before, while it is not known of all pods how they
// are: an operator that has just started must not take back what it knew, nor write
// until it knows better.
func lastKnown(o observation, kind string) verdict {
	c := meta.FindStatusCondition(o.relay.Status.Conditions, kind)
	if c == nil || c.Reason == v1alpha1.ReasonNoPods {
		return isUnknown(v1alpha1.ReasonPending, "not every pod was asked for its status yet")
	}
	return verdict{status: c.Status, reason: c.Reason, message: c.Message}
}

// firstFinding is what is found at the first pod, with the number of others.
func firstFinding(o observation, pods []pod, find func(o observation, p pod) verdict) verdict {
	var first verdict
	others := 0
	for _, p := range pods {
		switch v := find(o, p); {
		case v.status == "":
		case first.status == "":
			first = v
		default:
			others++
		}
	}
	if others > 0 {
		first.message += fmt.Sprintf(" (and %d more pods)", others)
	}
	return first
}

func kernelDrops(_ observation, p pod) verdict {
	if !p.reading.KernelDrops {
		return verdict{}
	}
	return isFalse(v1alpha1.ReasonKernelDrops,
		"%s: the kernel throws more than 100 datagrams a second away, because the relay's receive buffer is full; raise socketBuffers.receive, the CPU request or replicas",
		p.where())
}

func peersMissing(o observation, p pod) verdict {
	r := p.reading
	if !r.PeersMissing {
		return verdict{}
	}
	return isFalse(v1alpha1.ReasonPeersMissing,
		"%s has a session with %d of %d peers%s; let UDP port %d pass between the pods, and see whether those pods run and are in DNS",
		p.where(), r.Connected, r.Expected, namePeers(o, r), peerPort)
}

// namePeers says who is missing, pods by their names.
func namePeers(o observation, r health.Reading) string {
	if len(r.Missing) == 0 {
		return ""
	}
	names := make([]string, len(r.Missing))
	for i, address := range r.Missing {
		names[i] = address
		for _, p := range o.pods {
			if slices.Contains(p.addresses(peerPort), address) {
				names[i] = p.where()
			}
		}
	}
	slices.Sort(names)
	return ", none with " + strings.Join(slices.Compact(names), ", ")
}

func statusUnreachable(_ observation, p pod) verdict {
	if !p.reading.Unreachable {
		return verdict{}
	}
	return isUnknown(v1alpha1.ReasonStatusUnreachable,
		"%s does not answer on its status port, so that it is not known how it is; let the operator reach TCP port %d of the pods", p.where(), statusPort)
}

// peers are the rows of status.peers: of each pod that was asked what it says, of
// one that was not yet what it said before.
func peers(o observation) []v1alpha1.PeersStatus {
	var rows []v1alpha1.PeersStatus
	for _, p := range asked(o.pods) {
		switch r := p.reading; {
		case r.Mesh:
			rows = append(rows, v1alpha1.PeersStatus{Pod: p.Name, Expected: int32(r.Expected), Connected: int32(r.Connected)})
		case !r.Asked():
			rows = append(rows, previousPeers(o, p.Name)...)
		}
	}
	return rows[:min(len(rows), maxPeerRows)]
}

// maxPeerRows bounds status.peers.
const maxPeerRows = 64

func previousPeers(o observation, name string) []v1alpha1.PeersStatus {
	for _, row := range o.relay.Status.Peers {
		if row.Pod == name {
			return []v1alpha1.PeersStatus{row}
		}
	}
	return nil
}
