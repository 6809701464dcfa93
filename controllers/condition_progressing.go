package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// progressing judges whether pods are on their way to what is wanted.
func progressing(o observation) verdict {
	d := o.deployment
	if d == nil {
		return isUnknown(v1alpha1.ReasonPending, "there is no Deployment yet")
	}
	if refused, ok := creationRefused(d); ok {
		return isFalse(refused.reason, "%s", refused.message)
	}
	if stalled(d) {
		return isFalse(v1alpha1.ReasonRolloutStalled,
			"%d of %d pods run the new template, and none was added in time: see Degraded; correct the spec or take the change back",
			d.Status.UpdatedReplicas, o.deploymentReplicas())
	}
	return movement(o, d)
}

// movement tells apart the ways in which pods may be under way.
func movement(o observation, d *appsv1.Deployment) verdict {
	want, s := o.deploymentReplicas(), d.Status
	switch {
	case settled(d) && s.Replicas == s.UpdatedReplicas && s.Replicas != want:
		return isTrue(v1alpha1.ReasonScaling, "%d pods are there, %d are wanted", s.Replicas, want)
	case d.Generation != s.ObservedGeneration, s.UpdatedReplicas < want, s.Replicas > s.UpdatedReplicas, s.AvailableReplicas < want && !settled(d):
		return isTrue(v1alpha1.ReasonRolloutStarted, "%d of %d pods run the new template, %d serve, %d old ones are left",
			s.UpdatedReplicas, want, s.AvailableReplicas, max(0, s.Replicas-s.UpdatedReplicas))
	}
	for _, p := range o.pods {
		if p.draining() {
			return isTrue(v1alpha1.ReasonDraining, "%s lets its sessions move away, for at most %d s", p.where(), o.drainSeconds())
		}
	}
	return isFalse(v1alpha1.ReasonRolloutComplete, "%d of %d pods run the newest template", s.UpdatedReplicas, want)
}

// settled says that the Deployment once brought its present template to its end.
// A pod that is lost later is not a rollout.
func settled(d *appsv1.Deployment) bool {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	return c != nil && c.Reason == "NewReplicaSetAvailable"
}

// stalled says that the Deployment gave its present template up.
func stalled(d *appsv1.Deployment) bool {
	c := deploymentCondition(d, appsv1.DeploymentProgressing)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" && d.Generation == d.Status.ObservedGeneration
}
