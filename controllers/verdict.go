package controllers

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A verdict is what one condition function finds: the condition's status, reason
// and message, and how long that stays true by itself.
type verdict struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// until is when the verdict may change although nothing in the cluster does;
	// zero: never. The object is looked at again at that very instant.
	until time.Time
}

func isTrue(reason, format string, args ...any) verdict {
	return verdict{status: metav1.ConditionTrue, reason: reason, message: fmt.Sprintf(format, args...)}
}

func isFalse(reason, format string, args ...any) verdict {
	return verdict{status: metav1.ConditionFalse, reason: reason, message: fmt.Sprintf(format, args...)}
}

func isUnknown(reason, format string, args ...any) verdict {
	return verdict{status: metav1.ConditionUnknown, reason: reason, message: fmt.Sprintf(format, args...)}
}

// at is v with the instant at which it may change.
func (v verdict) at(until time.Time) verdict {
	v.until = until
	return v
}

// condition is v as a condition of the API. The time of the last transition is
// the previous one's unless the status differs.
func (v verdict) condition(kind string, previous *metav1.Condition, generation int64, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type: kind, Status: v.status, Reason: v.reason, Message: clip(v.message, maxMessage),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if previous != nil && previous.Status == v.status {
		c.LastTransitionTime = previous.LastTransitionTime
	}
	return c
}

// maxMessage bounds a condition's message in bytes; texts of schedulers and
// admission webhooks have no bound of their own (the API allows 32,768).
const maxMessage = 1024

// clip cuts s to at most n bytes, at a rune's border, and shows that it did.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := 0
	for i := range s {
		if i > n-len("…") {
			break
		}
		cut = i
	}
	return s[:cut] + "…"
}

// earlier is the earlier of two instants, where zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
