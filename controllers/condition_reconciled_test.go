package controllers

import (
	"testing"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func TestReconciled(t *testing.T) {
	runConditionCases(t, reconciled, []conditionCase{
		{
			name: "applied, and open", status: trueStatus, reason: v1alpha1.ReasonApplied,
			message: []string{"every object is as wanted; " + noteOpen},
		},
		{name: "a fault is told as it is", change: func(o *observation) {
			o.fault = faultf(v1alpha1.ReasonNameConflict, "Service %q is not ours", "demo")
		}, status: falseStatus, reason: v1alpha1.ReasonNameConflict, message: []string{`Service "demo" is not ours`}},
		{name: "paused", change: faulty(v1alpha1.ReasonPaused), status: falseStatus, reason: v1alpha1.ReasonPaused},
		{name: "a spec that cannot be had", change: faulty(v1alpha1.ReasonInvalidSpec), status: falseStatus, reason: v1alpha1.ReasonInvalidSpec},
		{name: "no permission", change: faulty(v1alpha1.ReasonHostAccessNotAllowed), status: falseStatus, reason: v1alpha1.ReasonHostAccessNotAllowed},
		{name: "a write refused", change: faulty(v1alpha1.ReasonApplyFailed), status: falseStatus, reason: v1alpha1.ReasonApplyFailed},
	})
}

// faulty is a pass that ended with a fault.
func faulty(reason string) func(o *observation) {
	return func(o *observation) { o.fault = faultf(reason, "x") }
}

func TestARelayThatAsksForTokensIsNotCalledOpen(t *testing.T) {
	o := newObservation()
	o.relay.Spec.Replicas = new(int32(1))
	o.relay.Spec.Auth = v1alpha1.AuthSpec{Mode: v1alpha1.AuthJWT, KeysSecretName: "keys"}
	if got, want := reconciled(o).message, "every object is as wanted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
