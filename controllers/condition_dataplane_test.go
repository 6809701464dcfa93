package controllers

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
)

// says replaces what a pod of newObservation says.
func says(pod int, r health.Reading) func(o *observation) {
	return func(o *observation) { o.pods[pod].reading = r }
}

// silent makes no pod one that was asked, with that condition from before.
func silent(before *metav1.Condition) func(o *observation) {
	return func(o *observation) {
		for i := range o.pods {
			o.pods[i].reading = health.Reading{}
		}
		if before != nil {
			o.relay.Status.Conditions = []metav1.Condition{*before}
		}
	}
}

func TestDataPlaneHealthy(t *testing.T) {
	missing := health.Reading{Answered: true, Mesh: true, Expected: 2, Connected: 1, PeersMissing: true}
	named, strange := missing, missing
	named.Missing, strange.Missing = []string{"10.1.0.1:4444"}, []string{"[fd00::9]:4444"}
	runConditionCases(t, dataPlane, []conditionCase{
		{name: "three pods are well", status: trueStatus, reason: v1alpha1.ReasonHealthy},
		{name: "no Deployment yet", change: func(o *observation) { o.deployment = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "no pod at all", change: func(o *observation) { o.pods = nil }, status: unknownStatus, reason: v1alpha1.ReasonNoPods},
		{name: "no ready pod", change: func(o *observation) {
			onePod(o, newStartingPod("demo-x", "n7"))
		}, status: unknownStatus, reason: v1alpha1.ReasonNoPods},
		{name: "nobody was asked yet", change: silent(nil), status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "an operator that starts keeps what it knew", change: silent(&metav1.Condition{
			Type: v1alpha1.ConditionDataPlaneHealthy, Status: falseStatus, Reason: v1alpha1.ReasonKernelDrops, Message: "as before",
		}), status: falseStatus, reason: v1alpha1.ReasonKernelDrops, message: []string{"as before"}},
		{name: "one of three was not asked yet", change: says(1, health.Reading{}), status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "one of three was not asked by an operator that starts", change: func(o *observation) {
			silent(&metav1.Condition{Type: v1alpha1.ConditionDataPlaneHealthy, Status: falseStatus, Reason: v1alpha1.ReasonKernelDrops, Message: "as before"})(o)
			says(1, health.Reading{Answered: true})(o)
		}, status: falseStatus, reason: v1alpha1.ReasonKernelDrops, message: []string{"as before"}},
		{name: "a blocked status port", change: says(2, health.Reading{Unreachable: true}), status: unknownStatus, reason: v1alpha1.ReasonStatusUnreachable, message: []string{"pod demo-c on node n2", "TCP port 9090"}},
		{name: "what is known comes before what is not", change: func(o *observation) {
			says(0, health.Reading{Unreachable: true})(o)
			says(1, missing)(o)
		}, status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"pod demo-b on node n2 has a session with 1 of 2 peers; let UDP port 4444"}},
		{name: "the missing peer has a name", change: says(1, named), status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"1 of 2 peers, none with pod demo-a on node n1;"}},
		{name: "the missing peer is no pod of ours", change: says(1, strange), status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"none with [fd00::9]:4444;"}},
		{name: "all miss one", change: func(o *observation) {
			for i := range o.pods {
				o.pods[i].reading = missing
			}
		}, status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"pod demo-a", "(and 2 more pods)"}},
		{name: "the missing peer has not started", change: func(o *observation) {
			says(1, named)(o)
			o.pods[0].Pod = new(newStartingPod("demo-a", "n1"))
		}, status: trueStatus, reason: v1alpha1.ReasonHealthy},
		{name: "the missing peer leaves", change: func(o *observation) {
			says(1, named)(o)
			o.pods[0].DeletionTimestamp = new(ago(time.Hour))
		}, status: trueStatus, reason: v1alpha1.ReasonHealthy},
		{name: "the missing peer became ready 30 s ago", change: func(o *observation) {
			says(1, named)(o)
			o.pods[0].Status.Conditions[1].LastTransitionTime = ago(30 * time.Second)
		}, status: trueStatus, reason: v1alpha1.ReasonHealthy, until: noon.Add(90 * time.Second)},
		{name: "two minutes after that it is missed", change: func(o *observation) {
			says(1, named)(o)
			o.pods[0].Status.Conditions[1].LastTransitionTime = ago(2 * time.Minute)
		}, status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"none with pod demo-a"}},
		{name: "one has not started, and another one is missing", change: func(o *observation) {
			two := named
			two.Connected = 0
			says(1, two)(o)
			o.pods[0].Pod = new(newStartingPod("demo-a", "n1"))
		}, status: falseStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"0 of 2 peers"}},
		{name: "the kernel drops", change: says(0, health.Reading{Answered: true, KernelDrops: true}), status: falseStatus, reason: v1alpha1.ReasonKernelDrops, message: []string{"pod demo-a on node n1", "socketBuffers.receive"}},
	})
}

func TestABlockedStatusPortIsNoOutage(t *testing.T) {
	o := newObservation()
	for i := range o.pods {
		o.pods[i].reading = health.Reading{Unreachable: true}
	}
	s, _ := status(o)
	for kind, want := range map[string]string{"Ready": "True/Ready", "Degraded": "False/AsExpected", "DataPlaneHealthy": "Unknown/StatusUnreachable"} {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if got := string(c.Status) + "/" + c.Reason; got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

func TestWhatTheDataPlaneLacksIsDegradedAndNotAnOutage(t *testing.T) {
	o := newObservation()
	says(1, health.Reading{Answered: true, Mesh: true, Expected: 2, PeersMissing: true})(&o)
	s, _ := status(o)
	for kind, want := range map[string]string{"Ready": "True/Ready", "Degraded": "True/PeersMissing", "DataPlaneHealthy": "False/PeersMissing"} {
		c := meta.FindStatusCondition(s.Conditions, kind)
		if got := string(c.Status) + "/" + c.Reason; got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

func TestTheStatusHasARowOfPeersForEachPodOfAMesh(t *testing.T) {
	o := newObservation()
	o.relay.Status.Peers = []v1alpha1.PeersStatus{{Pod: "demo-b", Expected: 5, Connected: 4}, {Pod: "gone", Expected: 1}}
	says(0, health.Reading{Answered: true, Mesh: true, Expected: 2, Connected: 1})(&o)
	says(1, health.Reading{})(&o)               // not asked yet: as before
	says(2, health.Reading{Answered: true})(&o) // not of a mesh
	leaving := newPod("demo-d", "n1")           // not asked any more
	leaving.DeletionTimestamp = new(ago(0))
	o.pods = append(o.pods, readPods([]corev1.Pod{leaving})...)
	s, _ := status(o)
	want := []v1alpha1.PeersStatus{{Pod: "demo-a", Expected: 2, Connected: 1}, {Pod: "demo-b", Expected: 5, Connected: 4}}
	if !slices.Equal(s.Peers, want) {
		t.Errorf("peers are %+v, want %+v", s.Peers, want)
	}
}

func TestASecondAddressOfAPodIsItsOwn(t *testing.T) {
	p := newPod("demo-a", "n1")
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}, {IP: "fd00::1"}}
	if got, want := readPods([]corev1.Pod{p})[0].addresses(4444), []string{"10.1.0.1:4444", "[fd00::1]:4444"}; !slices.Equal(got, want) {
		t.Errorf("addresses are %q, want %q", got, want)
	}
}
