package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// prune deletes the children that are no longer wanted: those of a part that was
// switched off, and configurations that no rollback can reach. Settled means that
// there is none left which waits for its pods to go.
func (r *Reconciler) prune(ctx context.Context, relay *v1alpha1.MoQRelay, p plan, s *scene) (settled bool, err error) {
	gone := unwanted(relay, p, s)
	for _, obj := range gone {
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		err := r.Client.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("delete %s: %w", describe(obj), err)
		}
		logFrom(ctx).Info("deleted", "kind", obj.GetObjectKind().GroupVersionKind().Kind, "child", obj.GetName(), "because", "no longer wanted")
	}
	return len(gone) == 0 && len(s.children) <= len(p.children)+p.revisions, nil
}

// unwanted are the relay's own children that the plan does not have, less the
// configurations that are kept, ordered by name.
func unwanted(relay *v1alpha1.MoQRelay, p plan, s *scene) []client.Object {
	wanted := map[childKey]bool{}
	for _, intent := range p.children {
		wanted[keyOf(intent)] = true
	}
	var gone, configs []client.Object
	for key, obj := range s.children {
		switch {
		case wanted[key] || !metav1.IsControlledBy(obj, relay) || obj.GetDeletionTimestamp() != nil:
		case isConfig(obj):
			configs = append(configs, obj)
		default:
			gone = append(gone, obj)
		}
	}
	gone = append(gone, surplus(configs, s.pods, p.revisions)...)
	slices.SortFunc(gone, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return gone
}

// isConfig says that obj is a hashed, immutable configuration.
func isConfig(obj client.Object) bool {
	cm, ok := obj.(*corev1.ConfigMap)
	return ok && cm.Immutable != nil && *cm.Immutable
}

// surplus are the old configurations (the present one is not among them) beyond
// the newest keep, which a rollback may need, and those that a pod mounts.
func surplus(configs []client.Object, pods []corev1.Pod, keep int) []client.Object {
	mounted := map[string]bool{}
	for i := range pods {
		for _, v := range pods[i].Spec.Volumes {
			if v.ConfigMap != nil {
				mounted[v.ConfigMap.Name] = true
			}
		}
	}
	slices.SortFunc(configs, func(a, b client.Object) int {
		at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		if d := bt.Compare(at.Time); d != 0 {
			return d
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
	return slices.DeleteFunc(configs[min(keep, len(configs)):], func(obj client.Object) bool { return mounted[obj.GetName()] })
}
