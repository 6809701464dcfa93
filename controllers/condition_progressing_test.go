package controllers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func TestProgressing(t *testing.T) {
	runConditionCases(t, progressing, []conditionCase{
		{name: "nothing is under way", status: falseStatus, reason: v1alpha1.ReasonRolloutComplete, message: []string{"3 of 3"}},
		{name: "no Deployment yet", change: func(o *observation) { o.deployment = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "the very first pods", change: func(o *observation) {
			o.deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 4}
		}, status: trueStatus, reason: v1alpha1.ReasonRolloutStarted, message: []string{"0 of 3"}},
		{name: "the Deployment has not seen its new template", change: func(o *observation) {
			o.deployment.Generation = 5
		}, status: trueStatus, reason: v1alpha1.ReasonRolloutStarted},
		{name: "one new pod beside three old ones", change: func(o *observation) {
			o.deployment.Status.Replicas, o.deployment.Status.UpdatedReplicas = 4, 1
		}, status: trueStatus, reason: v1alpha1.ReasonRolloutStarted, message: []string{"1 of 3 pods run the new template", "3 old ones are left"}},
		{name: "a pod that is lost later is no rollout", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 2
		}, status: falseStatus, reason: v1alpha1.ReasonRolloutComplete},
		{name: "new pods are ready but not for long enough", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 2
			o.deployment.Status.Conditions[0].Reason = "ReplicaSetUpdated"
		}, status: trueStatus, reason: v1alpha1.ReasonRolloutStarted},
		{name: "two more are wanted", change: func(o *observation) {
			o.deployment.Spec.Replicas = new(int32(5))
		}, status: trueStatus, reason: v1alpha1.ReasonScaling, message: []string{"3 pods are there, 5 are wanted"}},
		{name: "only draining pods are left of the old ones", change: func(o *observation) {
			p := newPod("demo-old", "n9")
			p.DeletionTimestamp = new(ago(0))
			onePod(o, p)
		}, status: trueStatus, reason: v1alpha1.ReasonDraining, message: []string{"pod demo-old on node n9", "300 s"}},
		{name: "the progress deadline passed", change: func(o *observation) {
			o.deployment.Status.UpdatedReplicas = 1
			o.deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, status: falseStatus, reason: v1alpha1.ReasonRolloutStalled, message: []string{"1 of 3", "see Degraded"}},
		{name: "an old deadline does not count against a new template", change: func(o *observation) {
			o.deployment.Generation = 5
			o.deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, status: trueStatus, reason: v1alpha1.ReasonRolloutStarted},
		{name: "pod security refuses", change: func(o *observation) {
			o.deployment.Status.Conditions = []appsv1.DeploymentCondition{failing(podSecurityText)}
		}, status: falseStatus, reason: v1alpha1.ReasonPodSecurityDenied},
		{name: "a webhook refuses", change: func(o *observation) {
			o.deployment.Status.Conditions = []appsv1.DeploymentCondition{failing(webhookText)}
		}, status: falseStatus, reason: v1alpha1.ReasonAdmissionDenied},
		{name: "quota refuses", change: func(o *observation) {
			o.deployment.Status.Conditions = []appsv1.DeploymentCondition{failing(quotaText)}
		}, status: falseStatus, reason: v1alpha1.ReasonQuotaExceeded},
	})
}
