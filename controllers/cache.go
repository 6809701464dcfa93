package controllers

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

// CacheOptions restricts what the operator holds in memory: of children and pods
// only those that bear our label, of a namespace only its labels, of each no more
// than the reconciler reads. Empty namespaces means all of them.
func CacheOptions(namespaces []string) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{labelManagedBy: render.ManagedByValue})
	child := cache.ByObject{Label: ours, Transform: trimChild}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	options := cache.Options{
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.MoQRelay{}:            {Transform: cache.TransformStripManagedFields()},
			&appsv1.Deployment{}:            child,
			&corev1.Service{}:               child,
			&corev1.ConfigMap{}:             child,
			&corev1.ServiceAccount{}:        child,
			&networkingv1.NetworkPolicy{}:   child,
			&policyv1.PodDisruptionBudget{}: child,
			&corev1.Pod{}:                   {Label: ours, Transform: trimPod},
			namespace:                       {Transform: trimNamespace},
		},
	}
	for _, name := range namespaces {
		if options.DefaultNamespaces == nil {
			options.DefaultNamespaces = map[string]cache.Config{}
		}
		options.DefaultNamespaces[name] = cache.Config{}
	}
	return options
}

// trimChild leaves of managedFields our own record, which tells what we own.
func trimChild(obj any) (any, error) {
	if o, ok := obj.(client.Object); ok {
		var kept []metav1.ManagedFieldsEntry
		if e := ownEntry(o.GetManagedFields()); e != nil {
			kept = []metav1.ManagedFieldsEntry{*e}
		}
		o.SetManagedFields(kept)
	}
	return obj, nil
}

// trimPod leaves what the status is made of.
func trimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	p.ManagedFields, p.Annotations = nil, nil
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, Volumes: configVolumes(p.Spec.Volumes)}
	return p, nil
}

// configVolumes are the volumes that keep a configuration from being pruned.
func configVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		if v.ConfigMap != nil {
			kept = append(kept, v)
		}
	}
	return kept
}

func trimNamespace(obj any) (any, error) {
	if ns, ok := obj.(*metav1.PartialObjectMetadata); ok {
		ns.ManagedFields, ns.Annotations = nil, nil
	}
	return obj, nil
}
