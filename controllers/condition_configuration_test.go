package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
)

// reports makes a pod of newObservation report these files.
func reports(pod int, config, live, rejected string) func(o *observation) {
	return says(pod, health.Reading{Answered: true, ConfigHash: config, LiveHash: live, Rejected: rejected})
}

// before is what an earlier operator left.
func before(status metav1.ConditionStatus, reason, configHash, liveHash string) func(o *observation) {
	return func(o *observation) {
		silent(&metav1.Condition{Type: v1alpha1.ConditionConfigurationApplied, Status: status, Reason: reason, Message: "as before"})(o)
		o.relay.Status.ConfigHash, o.relay.Status.LiveConfigHash = configHash, liveHash
	}
}

func TestConfigurationApplied(t *testing.T) {
	runConditionCases(t, configurationApplied, []conditionCase{
		{name: "three pods report both hashes", status: trueStatus, reason: v1alpha1.ReasonConverged},
		{name: "no Deployment yet", change: func(o *observation) { o.deployment = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "no pod", change: func(o *observation) { o.pods = nil }, status: unknownStatus, reason: v1alpha1.ReasonNoPods},
		{name: "nobody was asked yet", change: silent(nil), status: unknownStatus, reason: v1alpha1.ReasonPending},
		{
			name: "an operator that starts keeps what it knew of the same files", change: before(trueStatus, v1alpha1.ReasonConverged, "aa", "bb"),
			status: trueStatus, reason: v1alpha1.ReasonConverged, message: []string{"as before"},
		},
		{
			name: "and knows nothing of new ones", change: before(trueStatus, v1alpha1.ReasonConverged, "aa", "b0"),
			status: unknownStatus, reason: v1alpha1.ReasonPending,
		},
		{
			name: "an old pod", change: reports(1, "a0", "bb", ""), status: falseStatus, reason: v1alpha1.ReasonRolloutPending,
			message: []string{"pod demo-b on node n2 runs an older configuration"},
		},
		{
			name: "a file that has not come", change: reports(2, "aa", "b0", ""), status: falseStatus, reason: v1alpha1.ReasonLiveReloadPending,
			message: []string{"pod demo-c on node n2", "90 s"},
		},
		{
			name: "a file that a pod refuses", change: reports(0, "aa", "b0", `limits.news: unknown key`), status: falseStatus, reason: v1alpha1.ReasonLiveReloadRejected,
			message: []string{"pod demo-a on node n1", "limits.news: unknown key"},
		},
		{name: "a refusal of the past", change: reports(0, "aa", "bb", "x"), status: trueStatus, reason: v1alpha1.ReasonConverged},
		{name: "the refusal comes first", change: func(o *observation) {
			reports(0, "a0", "b0", "")(o)
			reports(1, "a0", "b0", "no")(o)
		}, status: falseStatus, reason: v1alpha1.ReasonLiveReloadRejected},
		{
			name: "a blocked status port", change: says(2, health.Reading{Unreachable: true}), status: unknownStatus, reason: v1alpha1.ReasonStatusUnreachable,
			message: []string{"pod demo-c on node n2"},
		},
		{name: "a refused spec: what was wanted before still counts", change: func(o *observation) {
			o.intended = intended{}
			o.relay.Status.ConfigHash, o.relay.Status.LiveConfigHash = "aa", "bb"
		}, status: trueStatus, reason: v1alpha1.ReasonConverged},
	})
}

func TestAChangeOfTheConfigurationIsNoWarning(t *testing.T) {
	for reason, want := range map[string]bool{
		v1alpha1.ReasonLiveReloadPending: false, v1alpha1.ReasonRolloutPending: false, v1alpha1.ReasonLiveReloadRejected: true,
	} {
		c := metav1.Condition{Type: v1alpha1.ConditionConfigurationApplied, Status: falseStatus, Reason: reason}
		if bad(c) != want {
			t.Errorf("%s is worth a warning: %v, want %v", reason, !want, want)
		}
	}
}
