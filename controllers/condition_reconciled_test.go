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
	})
}

func TestARelayThatAsksForTokensIsNotCalledOpen(t *testing.T) {
	o := newObservation()
	o.relay.Spec.Replicas = new(int32(1))
	o.relay.Spec.Auth = v1alpha1.AuthSpec{Mode: v1alpha1.AuthJWT, KeysSecretName: "keys"}
	if got, want := reconciled(o).message, "every object is as wanted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
