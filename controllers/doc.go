// Package controllers is the operator: it brings the cluster to what each
// MoQRelay asks for, and writes into its status what it sees.
//
// A pass over one object (Reconciler.Reconcile) is observe, plan, apply, status:
//
//   - moqrelay_observe.go reads pods, children and the namespace, from the cache;
//   - moqrelay_plan.go renders what is wanted (package render) and chooses the
//     socket buffer mode; pure;
//   - moqrelay_apply.go sends a server-side apply for each child of which a field
//     that we own differs, and no request for the others; moqrelay_prune.go
//     deletes what is no longer wanted;
//   - moqrelay_status.go makes the status, with one condition_*.go per condition;
//     pure, the clock is an argument. It is written when it differs.
//
// So nothing is written while nothing changes, nor when the operator starts
// again. Nothing polls either: what depends on time alone names the instant at
// which it may change, and the object is looked at again then.
//
// Faults that a person must mend are conditions, not errors: an error of
// Reconcile is a request worth repeating. Children have a controller reference
// and no finalizer, so deletion is the garbage collector's. No Secret is read.
package controllers
