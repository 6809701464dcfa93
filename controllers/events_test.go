package controllers

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// reasonsOf are the events of one observation following another.
func reasonsOf(before, after observation) []string {
	was, _ := status(before)
	after.relay.Status = was
	is, _ := status(after)
	var reasons []string
	for _, e := range transitions(was, is) {
		reasons = append(reasons, e.kind+" "+e.reason)
	}
	return reasons
}

func TestEventsAreMadeByTransitions(t *testing.T) {
	starting := func(o *observation) {
		o.pods = readPods([]corev1.Pod{newStartingPod("demo-a", "n1")})
		o.deployment.Status.AvailableReplicas, o.deployment.Status.UpdatedReplicas = 0, 1
	}
	for _, c := range []struct {
		name          string
		before, after func(o *observation)
		want          []string
	}{
		{"nothing changes", nil, nil, nil},
		{"a start is no trouble", func(o *observation) { o.deployment, o.service, o.pods = nil, nil, nil }, starting, []string{"Normal RolloutStarted"}},
		{"the relay serves", starting, nil, []string{"Normal RolloutComplete", "Normal AddressAssigned"}},
		{"an outage", nil, func(o *observation) { o.deployment.Status.AvailableReplicas = 0 }, []string{"Warning NoReadyPods"}},
		{"the outage goes on", func(o *observation) { o.deployment.Status.AvailableReplicas = 0 }, func(o *observation) { o.deployment.Status.AvailableReplicas = 0 }, nil},
		{"a pod has no node", nil, func(o *observation) {
			unscheduled(time.Hour)(o)
			o.pods = append(o.pods, newObservation().pods...)
		}, []string{"Warning Unschedulable"}},
		{"a pod drains", nil, func(o *observation) {
			p := newPod("demo-old", "n1")
			p.DeletionTimestamp = new(ago(0))
			o.pods = append(o.pods, readPods([]corev1.Pod{p})...)
		}, []string{"Normal DrainStarted"}},
		{"a name is taken", nil, func(o *observation) { o.fault = faultf(v1alpha1.ReasonNameConflict, "x") }, []string{"Warning NameConflict"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := newObservation(), newObservation()
			if c.before != nil {
				c.before(&before)
			}
			if c.after != nil {
				c.after(&after)
			}
			if got := reasonsOf(before, after); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnOpenRelayIsToldOnce(t *testing.T) {
	first, _ := status(newObservation())
	var reasons []string
	for _, e := range transitions(v1alpha1.MoQRelayStatus{}, first) {
		reasons = append(reasons, e.reason)
	}
	if !slices.Contains(reasons, v1alpha1.EventRelayOpen) {
		t.Errorf("the first status makes %q, want RelayOpen among them", reasons)
	}
	if again := transitions(first, first); again != nil {
		t.Errorf("the same status again makes %v, want nothing", again)
	}
}
