//go:build kube

package kube

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// BenchmarkIdlePass is a pass that finds nothing to do, over the operator's own
// cache: reading, rendering, comparing six children field by field, status.
func BenchmarkIdlePass(b *testing.B) {
	op, relay, _ := newServing(b)
	wantCondition(b, relay, v1alpha1.ConditionReady, "True", v1alpha1.ReasonReady)
	op.catchUp(b, relay)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(relay)}
	op.forget()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.reconciler.Reconcile(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
	if writes, _ := op.count(); len(writes) > 0 {
		b.Fatalf("idle passes wrote %q", writes)
	}
}
