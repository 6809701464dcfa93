package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	var until time.Time
	for _, find := range []func(o observation, p pod) verdict{kernelDrops, peersMissing, statusUnreachable} {
		v := firstFinding(o, pods, find)
		until = earlier(until, v.until)
		if v.status != "" {
			return v.at(until)
		}
	}
	return isTrue(v1alpha1.ReasonHealthy, "no pod reports lost packets or a missing peer").at(until)
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

// firstFinding is what is found at the first pod, with the number of others; without
// any, the earliest instant at which there may be something.
func firstFinding(o observation, pods []pod, find func(o observation, p pod) verdict) verdict {
	var first verdict
	var until time.Time
	others := 0
	for _, p := range pods {
		v := find(o, p)
		until = earlier(until, v.until)
		switch {
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
	return first.at(until)
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
	excused, until := excusedPeers(o, r)
	if r.Expected-r.Connected <= excused {
		return verdict{until: until}
	}
	return isFalse(v1alpha1.ReasonPeersMissing,
		"%s has a session with %d of %d peers%s; let UDP port %d pass between the pods, and see whether those pods run and are in DNS",
		p.where(), r.Connected, r.Expected, namePeers(o, r), peerPort).at(until)
}

// excusedPeers counts the missing addresses whose pods are not there yet, or not any
// more: a pod has an address long before its relay has started, and other
// conditions tell of one that never does. The instant is when the first of those
// that have just become ready has no excuse any more.
func excusedPeers(o observation, r health.Reading) (count int, until time.Time) {
	for _, address := range r.Missing {
		p := o.podAt(address)
		switch {
		case p == nil:
		case p.draining() || !p.ready():
			count++
		default:
			grace := p.condition(corev1.PodReady).LastTransitionTime.Add(peerGrace)
			if o.now.Before(grace) {
				count++
				until = earlier(until, grace)
			}
		}
	}
	return count, until
}

// podAt is the pod with that address and the peer port, nil if there is none of ours.
func (o observation) podAt(address string) *pod {
	for i := range o.pods {
		if slices.Contains(o.pods[i].addresses(peerPort), address) {
			return &o.pods[i]
		}
	}
	return nil
}

const (
	// peerGrace is how long after it has become ready a pod is not missed: what the
	// others say of it may be one ask old.
	peerGrace = 2 * time.Minute
	// namedPeers is how many missing peers a message names.
	namedPeers = 4
)

// namePeers says who is missing, pods by their names.
func namePeers(o observation, r health.Reading) string {
	if len(r.Missing) == 0 {
		return ""
	}
	names := make([]string, len(r.Missing))
	for i, address := range r.Missing {
		names[i] = address
		if p := o.podAt(address); p != nil {
			names[i] = p.where()
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if len(names) > namedPeers {
		more = fmt.Sprintf(" and %d more", len(names)-namedPeers)
	}
	return ", none with " + strings.Join(names[:min(len(names), namedPeers)], ", ") + more
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
