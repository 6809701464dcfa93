package controllers

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

const (
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
)

// childLists makes an empty list for every kind of child.
var childLists = []func() client.ObjectList{
	func() client.ObjectList { return &corev1.ServiceAccountList{} },
	func() client.ObjectList { return &corev1.ConfigMapList{} },
	func() client.ObjectList { return &networkingv1.NetworkPolicyList{} },
	func() client.ObjectList { return &corev1.ServiceList{} },
	func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} },
	func() client.ObjectList { return &appsv1.DeploymentList{} },
}

// A childKey names a child within the namespace of its relay.
type childKey struct {
	kind schema.GroupKind
	name string
}

func keyOf(obj client.Object) childKey {
	return childKey{obj.GetObjectKind().GroupVersionKind().GroupKind(), obj.GetName()}
}

// A scene is what a pass sees of the cluster. Applying children replaces them in it.
type scene struct {
	children map[childKey]client.Object // those that bear our labels; with kind set
	pods     []corev1.Pod
	// hostAccess is the namespace's permission to touch its nodes.
	hostAccess bool
	// leaving is true while the namespace is being deleted, as far as it is looked at.
	leaving bool
}

// observe reads all that concerns a relay from the cache.
func (r *Reconciler) observe(ctx context.Context, relay *v1alpha1.MoQRelay) (scene, error) {
	s := scene{children: map[childKey]client.Object{}}
	ours := []client.ListOption{client.InNamespace(relay.Namespace), client.MatchingLabels(render.SelectorLabels(relay))}
	for _, newList := range childLists {
		list := newList()
		if err := r.Client.List(ctx, list, ours...); err != nil {
			return s, fmt.Errorf("list children: %w", err)
		}
		if err := s.add(list); err != nil {
			return s, err
		}
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, ours...); err != nil {
		return s, fmt.Errorf("list pods: %w", err)
	}
	s.pods = pods.Items
	if r.AllowHost {
		return s, nil
	}
	return s, r.permission(ctx, relay.Namespace, &s)
}

// add puts the items of a list into the scene. Items of a list do not bear their
// kind, which the comparison with the intent needs.
func (s *scene) add(list client.ObjectList) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
		if err != nil {
			return err
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		s.children[keyOf(obj)] = obj
		return nil
	})
}

// permission reads the cluster admin's permission from the namespace's label, and
// whether the namespace is on its way out.
func (r *Reconciler) permission(ctx context.Context, namespace string, s *scene) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	s.hostAccess = ns.Labels[v1alpha1.LabelHostAccess] == v1alpha1.HostAccessAllowed
	s.leaving = ns.DeletionTimestamp != nil
	return nil
}

// deployment is the relay's Deployment, nil if there is none of ours.
func (s *scene) deployment(relay *v1alpha1.MoQRelay) *appsv1.Deployment {
	d, ok := s.children[childKey{schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}, relay.Name}].(*appsv1.Deployment)
	if !ok || !metav1.IsControlledBy(d, relay) {
		return nil
	}
	return d
}

// service is the relay's public Service, nil if there is none of ours.
func (s *scene) service(relay *v1alpha1.MoQRelay) *corev1.Service {
	svc, ok := s.children[childKey{schema.GroupKind{Kind: "Service"}, relay.Name}].(*corev1.Service)
	if !ok || !metav1.IsControlledBy(svc, relay) {
		return nil
	}
	return svc
}
