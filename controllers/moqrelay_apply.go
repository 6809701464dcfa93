package controllers

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// FieldManager is the name under which the operator owns fields of its
// children (metadata.managedFields).
const FieldManager = "moq-relay-operator"

// typeConverter knows the schemas of the kinds built into Kubernetes. Making it
// costs about 100 ms, so it is made once and only when it is needed.
var typeConverter = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
})

// notCompared are fields that are part of every apply request and of no ownership
// record, and the status, which is not the operator's to apply.
var notCompared = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"),
	fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "name"),
	fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("status"),
)

// difference lists the fields in which live is not what intent asks for: fields
// that another manager took or changed, fields that intent has anew, and fields
// that we own and intent no longer has. Fields that are not ours (defaults of
// the API server, other managers' additions) are not looked at. An empty set
// means that applying intent would change nothing.
func difference(live client.Object, intent *unstructured.Unstructured) (*fieldpath.Set, error) {
	want, err := typeConverter().ObjectToTyped(intent)
	if err != nil {
		return nil, fmt.Errorf("type the intent: %w", err)
	}
	have, err := ownedFields(live)
	if err != nil {
		return nil, err
	}
	delta, err := have.Compare(want)
	if err != nil {
		return nil, fmt.Errorf("compare live object and intent: %w", err)
	}
	return delta.Added.Union(delta.Modified).Union(delta.Removed).RecursiveDifference(notCompared), nil
}

// ownedFields is the part of live that our last apply set and that nobody has
// taken since.
func ownedFields(live client.Object) (*typed.TypedValue, error) {
	value, err := typeConverter().ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("type the live object: %w", err)
	}
	owned := &fieldpath.Set{}
	if entry := ownEntry(live.GetManagedFields()); entry != nil {
		if err := owned.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read managedFields: %w", err)
		}
	}
	return value.ExtractItems(owned.Leaves()), nil
}

// ownEntry is our own record among managed fields, nil if there is none.
func ownEntry(entries []metav1.ManagedFieldsEntry) *metav1.ManagedFieldsEntry {
	for i := range entries {
		e := &entries[i]
		if e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.FieldsV1 != nil {
			return e
		}
	}
	return nil
}

// apply brings every child to what the plan wants, and the scene up to date. A
// name that belongs to somebody else is found before anything is written.
func (r *Reconciler) apply(ctx context.Context, relay *v1alpha1.MoQRelay, p plan, s *scene) error {
	for _, intent := range p.children {
		if err := r.lookUp(ctx, relay, intent, s); err != nil {
			return err
		}
	}
	for _, intent := range p.children {
		obj, err := r.applyChild(ctx, s.children[keyOf(intent)], intent)
		if isTerminal(err) {
			return faultf(v1alpha1.ReasonApplyFailed, "%v", err)
		}
		if err != nil {
			return err
		}
		s.children[keyOf(intent)] = obj
	}
	return nil
}

// lookUp makes sure that the scene has the object of intent's name if there is
// one, and that it is ours. An object without our labels is not in the cache, so
// what is not there is asked for once more at the API server.
func (r *Reconciler) lookUp(ctx context.Context, relay *v1alpha1.MoQRelay, intent *unstructured.Unstructured, s *scene) error {
	live, known := s.children[keyOf(intent)]
	if !known {
		obj, err := typedObject(intent)
		if err != nil {
			return err
		}
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(intent), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", describe(intent), err)
		}
		obj.GetObjectKind().SetGroupVersionKind(intent.GroupVersionKind())
		live = obj
	}
	if !metav1.IsControlledBy(live, relay) {
		return faultf(v1alpha1.ReasonNameConflict, "%s exists and is not this MoQRelay's: it is left alone; rename it or the MoQRelay", describe(intent))
	}
	s.children[keyOf(intent)] = live
	return nil
}

// applyChild brings the API server's object to intent with one forced
// server-side apply, or with no request at all when live already agrees. It
// returns the object as it is afterwards.
func (r *Reconciler) applyChild(ctx context.Context, live client.Object, intent *unstructured.Unstructured) (client.Object, error) {
	cause := "absent"
	if live != nil {
		delta, err := difference(live, intent)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(intent), err)
		}
		if delta.Empty() {
			return live, nil
		}
		cause = firstPath(delta)
	}
	sent := intent.DeepCopy()
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", describe(intent), err)
	}
	logFrom(ctx).Info("applied", "kind", intent.GetKind(), "child", intent.GetName(), "because", cause)
	return typedObject(sent)
}

// firstPath names one of the fields that differ, for the log.
func firstPath(delta *fieldpath.Set) string {
	first := ""
	delta.Leaves().Iterate(func(p fieldpath.Path) {
		if first == "" {
			first = p.String()
		}
	})
	return first
}

// typedObject turns an answer of the API server into the Go type of its kind.
func typedObject(u *unstructured.Unstructured) (client.Object, error) {
	obj, err := clientgoscheme.Scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(u), err)
	}
	return obj.(client.Object), nil
}

// describe names an object for messages: Deployment "demo".
func describe(obj client.Object) string {
	return fmt.Sprintf("%s %q", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
}

// isTerminal says that the API server refused a request for what it asks:
// repeating it is of no use until somebody changes something.
func isTerminal(err error) bool {
	return !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsMethodNotSupported(err) || apierrors.IsRequestEntityTooLargeError(err))
}
