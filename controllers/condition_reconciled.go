package controllers

import (
	"fmt"
	"strings"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// reconciled tells how this pass over the children went.
func reconciled(o observation) verdict {
	if o.fault != nil {
		return isFalse(o.fault.reason, "%s", o.fault.message)
	}
	return isTrue(v1alpha1.ReasonApplied, "%s", strings.Join(append([]string{"every object is as wanted"}, notes(o.relay)...), "; "))
}

// A fault is why a pass could not bring the children to what is wanted, and who
// mends it how. It is the user's or the cluster admin's turn.
type fault struct{ reason, message string }

func (f *fault) Error() string { return f.reason + ": " + f.message }

func faultf(reason, format string, args ...any) *fault {
	return &fault{reason, fmt.Sprintf(format, args...)}
}

// Notes on a relay that is as wanted, and yet may surprise. They stand in the
// message of Reconciled for as long as they hold.
const noteOpen = "auth.mode is None, so whoever reaches the relay may publish and watch everything"

// notes are those that hold for a relay.
func notes(relay *v1alpha1.MoQRelay) []string {
	var list []string
	if relay.Spec.Auth.Mode == v1alpha1.AuthNone {
		list = append(list, noteOpen)
	}
	return list
}
