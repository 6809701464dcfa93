package controllers

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// available judges whether enough pods serve: one lost pod of three is not an
// outage, the last one is.
func available(o observation) verdict {
	want := o.replicas()
	if want == 0 {
		return isTrue(v1alpha1.ReasonScaledToZero, "spec.replicas is 0: no pod is wanted; raise it to serve again")
	}
	if o.deployment == nil || o.deployment.Status.ObservedGeneration == 0 {
		return isUnknown(v1alpha1.ReasonPending, "the Deployment has not been acted upon yet")
	}
	have, least := o.deployment.Status.AvailableReplicas, max(1, want-1)
	if have >= least {
		return isTrue(v1alpha1.ReasonMinimumReady, "%d of %d pods serve; at least %d must", have, want, least)
	}
	if refused, ok := creationRefused(o.deployment); ok {
		return isFalse(refused.reason, "%d of %d pods serve: %s", have, want, refused.message)
	}
	reason := v1alpha1.ReasonBelowMinimum
	if have == 0 {
		reason = v1alpha1.ReasonNoReadyPods
	}
	return isFalse(reason, "%d of %d pods serve, at least %d must: %s", have, want, least, whyNotReady(o))
}

// whyNotReady says what the first pod that does not serve waits for.
func whyNotReady(o observation) string {
	pods := serving(o.pods)
	if len(pods) == 0 {
		return "no pod exists yet"
	}
	if p := firstNotReady(pods); p != nil {
		return p.where() + " " + p.waitsFor()
	}
	return "the pods are ready and must stay so for a few seconds"
}

// A refusal is why the API server does not let pods be made.
type refusal struct{ reason, message string }

// creationRefused reads the Deployment's ReplicaFailure condition, which says why
// its pods could not be made.
func creationRefused(d *appsv1.Deployment) (refusal, bool) {
	c := deploymentCondition(d, appsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return refusal{}, false
	}
	return classifyRefusal(c.Message), true
}

// refusedName matches the random pod name with which the API server begins a
// refusal; left in, every attempt would be a new message.
var refusedName = regexp.MustCompile(`^.*?pods "[^"]*" is forbidden: `)

func classifyRefusal(message string) refusal {
	text := refusedName.ReplaceAllString(message, "")
	switch {
	case strings.Contains(text, "violates PodSecurity"):
		return refusal{v1alpha1.ReasonPodSecurityDenied, "the namespace's Pod Security level refuses the pods: " + text +
			"; raise the level (label pod-security.kubernetes.io/enforce) or set socketBuffers.mode to Verify"}
	case strings.Contains(text, "exceeded quota"), strings.Contains(text, "failed quota"):
		return refusal{v1alpha1.ReasonQuotaExceeded, "the namespace's quota has no room for the pods: " + text +
			"; lower resources or replicas, or raise the quota"}
	default:
		return refusal{v1alpha1.ReasonAdmissionDenied, "the API server refuses the pods: " + text}
	}
}

// deploymentCondition finds a condition of a Deployment, nil if it has none of that type.
func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
