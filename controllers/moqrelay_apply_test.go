package controllers

import (
	"context"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

// A rig is a reconciler over a client in memory that counts its writes.
type rig struct {
	*Reconciler
	writes []string // "apply Service", "update status", "delete ConfigMap", …
	relay  *v1alpha1.MoQRelay
}

// newRig has newRelay with one replica and a namespace with these labels.
func newRig(t *testing.T, labels map[string]string, others ...client.Object) *rig {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	relay := newRelay()
	relay.Spec.Replicas = new(int32(1))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: relay.Namespace, Labels: labels}}
	r := &rig{relay: relay}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.MoQRelay{}, &appsv1.Deployment{}).
		WithObjects(append(others, relay, ns)...).WithReturnManagedFields().WithTypeConverters(noPolicyStatus{typeConverter()}, managedfields.NewDeducedTypeConverter()).WithInterceptorFuncs(r.counting()).Build()
	r.Reconciler = &Reconciler{Client: c, Live: c, Render: render.Options{RelayImage: "example.test/moq-relay:1"}, Version: "v0.1.0"}
	return r
}

// The fake client gives every object it applies a status, which a NetworkPolicy has
// none of.
type noPolicyStatus struct{ managedfields.TypeConverter }

func (c noPolicyStatus) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.GetKind() == "NetworkPolicy" {
		u = u.DeepCopy()
		delete(u.Object, "status")
		obj = u
	}
	return c.TypeConverter.ObjectToTyped(obj, options...)
}

func (r *rig) counting() interceptor.Funcs {
	count := func(verb string, obj any) {
		kind := "?"
		if o, ok := obj.(client.Object); ok {
			if kind = o.GetObjectKind().GroupVersionKind().Kind; kind == "" {
				kind = reflect.TypeOf(obj).Elem().Name()
			}
		}
		r.writes = append(r.writes, verb+" "+kind)
	}
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			count("apply", obj)
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			count("delete", obj)
			return c.Delete(ctx, obj, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			count("update "+sub, obj)
			return c.SubResource(sub).Update(ctx, obj, opts...)
		},
	}
}

func requestFor(relay *v1alpha1.MoQRelay) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(relay)}
}

// pass makes one pass and returns its writes.
func (r *rig) pass(t *testing.T) []string {
	t.Helper()
	r.writes = nil
	if _, err := r.Reconcile(t.Context(), requestFor(r.relay)); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(r.relay), r.relay); err != nil {
		t.Fatal(err)
	}
	return r.writes
}

func (r *rig) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(r.relay), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// reason is that of one of the relay's conditions.
func (r *rig) reason(kind string) string {
	for _, c := range r.relay.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

func TestChildrenAreAppliedOnceInOrder(t *testing.T) {
	r := newRig(t, nil)
	want := []string{"apply ServiceAccount", "apply ConfigMap", "apply ConfigMap", "apply NetworkPolicy", "apply Service", "apply Service", "apply PodDisruptionBudget", "apply Deployment", "update status MoQRelay"}
	if got := r.pass(t); !slices.Equal(got, want) {
		t.Fatalf("the first pass writes %q, want %q", got, want)
	}
	if got := r.pass(t); len(got) != 0 {
		t.Errorf("the second pass writes %q, want nothing", got)
	}
}

func TestDriftOfOneChildIsRepairedAlone(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	d := r.deployment(t)
	d.Spec.Template.Spec.Containers[0].Image = "example.test/other:2"
	d.Annotations = map[string]string{"somebody.example.test/note": "not ours to judge"}
	if err := r.Client.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	if got := r.pass(t); !slices.Equal(got, []string{"apply Deployment"}) {
		t.Errorf("the pass after the edit writes %q, want the Deployment alone", got)
	}
	d = r.deployment(t)
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "example.test/moq-relay:1" || len(d.Annotations) != 1 {
		t.Errorf("image is %q with annotations %v, want ours again and the foreign note kept", got, d.Annotations)
	}
}

func TestAForeignObjectIsNeverTouched(t *testing.T) {
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "media"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.99"}}
	r := newRig(t, nil, foreign)
	if got := r.pass(t); !slices.Equal(got, []string{"update status MoQRelay"}) {
		t.Errorf("a taken name makes us write %q, want the status alone", got)
	}
	if got := r.reason(v1alpha1.ConditionReconciled); got != v1alpha1.ReasonNameConflict {
		t.Errorf("Reconciled says %s, want NameConflict", got)
	}
}
