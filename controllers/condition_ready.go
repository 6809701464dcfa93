package controllers

import (
	"github.com/moqrelay/operator/api/v1alpha1"
)

// readiness sums the others up: the first False decides, and an Available that is
// not known. What is unknown elsewhere is not an outage.
func readiness(v verdicts) verdict {
	for _, kind := range []string{
		v1alpha1.ConditionReconciled, v1alpha1.ConditionAvailable, v1alpha1.ConditionCertificateReady, v1alpha1.ConditionAddressReady,
	} {
		found := v[kind]
		switch {
		case found.status == falseStatus && found.reason != v1alpha1.ReasonExpiringSoon:
			return isFalse(found.reason, "%s: %s", kind, found.message)
		case kind == v1alpha1.ConditionAvailable && found.status == unknownStatus:
			return isUnknown(found.reason, "%s: %s", kind, found.message)
		}
	}
	if v[v1alpha1.ConditionAvailable].reason == v1alpha1.ReasonScaledToZero {
		return isTrue(v1alpha1.ReasonScaledToZero, "spec.replicas is 0: no pod is wanted")
	}
	return isTrue(v1alpha1.ReasonReady, "clients can connect")
}
