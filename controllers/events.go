package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// An EventSink takes events about an object; the recorder of a controller
// manager is one.
type EventSink interface {
	Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// A notice is an event that is still to be recorded: something that people should
// see in kubectl describe.
type notice struct{ kind, reason, message string }

// maxNote bounds an event's text in bytes; the API takes less than 1 KiB.
const maxNote = 1000

// tell records events, and logs those that somebody may be woken for.
func (r *Reconciler) tell(ctx context.Context, relay *v1alpha1.MoQRelay, events []notice) {
	for _, e := range events {
		if e.kind == corev1.EventTypeWarning {
			logFrom(ctx).Info("warning", "reason", e.reason, "message", e.message)
		}
		if r.Events != nil {
			r.Events.Eventf(relay, nil, e.kind, e.reason, "Reconcile", "%s", clip(e.message, maxNote))
		}
	}
}

// transitions are the events of one status following another. Nothing else makes
// events, so that each is told once however often the object is looked at.
func transitions(before, after v1alpha1.MoQRelayStatus) []notice {
	var events []notice
	for _, c := range after.Conditions {
		was := meta.FindStatusCondition(before.Conditions, c.Type)
		if was == nil {
			was = &metav1.Condition{Status: unknownStatus, Reason: v1alpha1.ReasonPending}
		}
		if e, ok := warning(*was, c); ok {
			events = append(events, e)
		}
		events = append(events, milestones(*was, c, after)...)
	}
	return append(events, drains(before, after)...)
}

// warning is the event of a condition that became bad, or bad for another reason.
// Ready has none: it repeats the others.
func warning(was, is metav1.Condition) (notice, bool) {
	switch {
	case is.Type == v1alpha1.ConditionReady || !bad(is):
		return notice{}, false
	case bad(was) && was.Reason == is.Reason:
		return notice{}, false
	case passing(is.Reason) && was.Status == unknownStatus:
		return notice{}, false // every relay starts that way
	}
	return notice{corev1.EventTypeWarning, is.Reason, is.Message}, true
}

// bad says that somebody should look at a condition.
func bad(c metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionDegraded:
		return c.Status == trueStatus
	case v1alpha1.ConditionProgressing:
		return c.Status == falseStatus && c.Reason != v1alpha1.ReasonRolloutComplete
	case v1alpha1.ConditionConfigurationApplied:
		return c.Reason == v1alpha1.ReasonLiveReloadRejected // pods need a moment for each change
	default:
		return c.Status == falseStatus
	}
}

// passing says that a reason is also that of a relay which is just starting.
func passing(reason string) bool {
	switch reason {
	case v1alpha1.ReasonNoReadyPods, v1alpha1.ReasonBelowMinimum, v1alpha1.ReasonAddressPending:
		return true
	default:
		return false
	}
}

// milestones are the events of conditions that changed without being bad.
func milestones(was, is metav1.Condition, after v1alpha1.MoQRelayStatus) []notice {
	switch is.Type {
	case v1alpha1.ConditionProgressing:
		return rollout(was, is)
	case v1alpha1.ConditionAddressReady:
		if is.Reason == v1alpha1.ReasonAssigned && was.Reason != is.Reason && len(after.Endpoints) > 0 {
			return []notice{{corev1.EventTypeNormal, v1alpha1.EventAddressAssigned, "clients connect to " + after.Endpoints[0].URL}}
		}
	case v1alpha1.ConditionReconciled:
		return surprises(was, is)
	}
	return nil
}

func rollout(was, is metav1.Condition) []notice {
	switch {
	case is.Reason == was.Reason:
		return nil
	case is.Reason == v1alpha1.ReasonRolloutStarted:
		return []notice{{corev1.EventTypeNormal, v1alpha1.ReasonRolloutStarted, is.Message}}
	case was.Reason == v1alpha1.ReasonRolloutStarted && (is.Reason == v1alpha1.ReasonDraining || is.Reason == v1alpha1.ReasonRolloutComplete):
		return []notice{{corev1.EventTypeNormal, v1alpha1.ReasonRolloutComplete, is.Message}}
	default:
		return nil
	}
}

// surprises are warnings about a relay that is as wanted, told when their note
// first stands in the message of Reconciled.
func surprises(was, is metav1.Condition) []notice {
	if !strings.Contains(is.Message, noteOpen) || strings.Contains(was.Message, noteOpen) {
		return nil
	}
	return []notice{{corev1.EventTypeWarning, v1alpha1.EventRelayOpen, noteOpen}}
}

func drains(before, after v1alpha1.MoQRelayStatus) []notice {
	switch {
	case after.DrainingReplicas > before.DrainingReplicas:
		return []notice{{corev1.EventTypeNormal, v1alpha1.EventDrainStarted, fmt.Sprintf("%d pods let their sessions move away", after.DrainingReplicas)}}
	case after.DrainingReplicas == 0 && before.DrainingReplicas > 0:
		return []notice{{corev1.EventTypeNormal, v1alpha1.EventDrainComplete, "no pod is draining any more"}}
	default:
		return nil
	}
}
