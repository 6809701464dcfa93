package controllers

import (
	"testing"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
)

// ready is Ready of a whole observation.
func ready(o observation) verdict { return judge(o)[v1alpha1.ConditionReady] }

func TestReady(t *testing.T) {
	runConditionCases(t, ready, []conditionCase{
		{name: "clients are served", status: trueStatus, reason: v1alpha1.ReasonReady},
		{name: "nothing was seen yet", change: func(o *observation) { o.deployment = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "none is wanted", change: func(o *observation) {
			o.relay.Spec.Replicas, o.pods = new(int32(0)), nil
		}, status: trueStatus, reason: v1alpha1.ReasonScaledToZero},
		{name: "the data path does not count", change: says(0, health.Reading{Answered: true, KernelDrops: true}), status: trueStatus, reason: v1alpha1.ReasonReady},
	})
}

func TestReadySumsUpTheFirstFailing(t *testing.T) {
	const (
		rec, av, cert, addr = v1alpha1.ConditionReconciled, v1alpha1.ConditionAvailable, v1alpha1.ConditionCertificateReady, v1alpha1.ConditionAddressReady
	)
	good := func() verdicts {
		return verdicts{
			rec:  isTrue(v1alpha1.ReasonApplied, ""),
			av:   isTrue(v1alpha1.ReasonMinimumReady, ""),
			cert: isTrue(v1alpha1.ReasonValid, ""),
			addr: isTrue(v1alpha1.ReasonAssigned, ""),
		}
	}
	for _, c := range []struct {
		name   string
		change verdicts
		want   verdict
	}{
		{"all good", nil, isTrue(v1alpha1.ReasonReady, "clients can connect")},
		{"four failing: Reconciled is told", verdicts{
			rec: isFalse("NameConflict", "x"), av: isFalse("NoReadyPods", "y"), cert: isFalse("Expired", "z"), addr: isFalse("AddressPending", "w"),
		}, isFalse("NameConflict", "Reconciled: x")},
		{"three failing: Available is told", verdicts{
			av: isFalse("NoReadyPods", "y"), cert: isFalse("Expired", "z"), addr: isFalse("AddressPending", "w"),
		}, isFalse("NoReadyPods", "Available: y")},
		{"two failing: the certificate is told", verdicts{cert: isFalse("Expired", "z"), addr: isFalse("AddressPending", "w")}, isFalse("Expired", "CertificateReady: z")},
		{"the address alone", verdicts{addr: isFalse("AddressPending", "w")}, isFalse("AddressPending", "AddressReady: w")},
		{"a certificate that ends soon still serves", verdicts{cert: isFalse(v1alpha1.ReasonExpiringSoon, "z")}, isTrue(v1alpha1.ReasonReady, "clients can connect")},
		{"what is not known is no outage", verdicts{cert: isUnknown("NoReport", "z"), addr: isUnknown("Pending", "w")}, isTrue(v1alpha1.ReasonReady, "clients can connect")},
		{"unless it is Available", verdicts{av: isUnknown("Pending", "y")}, isUnknown("Pending", "Available: y")},
		{"scaled to zero", verdicts{av: isTrue(v1alpha1.ReasonScaledToZero, "")}, isTrue(v1alpha1.ReasonScaledToZero, "spec.replicas is 0: no pod is wanted")},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := good()
			for kind, found := range c.change {
				v[kind] = found
			}
			if got := readiness(v); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
