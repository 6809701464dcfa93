package controllers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// oldConfigs are configurations cfg-1 (made one hour ago) to cfg-n (n hours ago).
func oldConfigs(n int) []client.Object {
	var list []client.Object
	for i := 1; i <= n; i++ {
		list = append(list, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("cfg-%d", i), CreationTimestamp: ago(time.Duration(i) * time.Hour),
		}, Immutable: new(true)})
	}
	return list
}

func TestOldConfigurationsAreKeptForRollbackAndForThePodsThatMountThem(t *testing.T) {
	p := newPod("demo-a", "n1")
	p.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cfg-6"}},
	}}}
	var gone []string
	for _, obj := range surplus(oldConfigs(7), []corev1.Pod{p}, 3) {
		gone = append(gone, obj.GetName())
	}
	if want := []string{"cfg-4", "cfg-5", "cfg-7"}; !slices.Equal(gone, want) {
		t.Errorf("deleted are %v, want %v: three are kept, and cfg-6 is mounted", gone, want)
	}
	if got := surplus(oldConfigs(2), nil, 3); len(got) != 0 {
		t.Errorf("of two, %d are deleted, want none", len(got))
	}
}

func TestAServiceThatIsNotWantedAnyMoreIsDeleted(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	r.edit(t, func(s *v1alpha1.MoQRelaySpec) { s.Service.Type = v1alpha1.ServiceNone })
	if got := r.pass(t); !slices.Contains(got, "delete Service") {
		t.Errorf("service.type None makes us write %q, want the Service deleted", got)
	}
	if got := r.pass(t); len(got) != 0 {
		t.Errorf("the pass after that writes %q, want nothing", got)
	}
}

func TestARelayInANamespaceThatGoesIsLeftAlone(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	ns := &corev1.Namespace{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: r.relay.Namespace}, ns); err != nil {
		t.Fatal(err)
	}
	ns.Finalizers = []string{"kubernetes"} // else it would be gone at once
	if err := r.Client.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.relay.Namespace, Name: r.relay.Name}}); err != nil {
		t.Fatal(err)
	}
	r.writes = nil
	r.pass(t)
	if len(r.writes) > 0 || len(r.memo.relays) > 0 {
		t.Errorf("the pass wrote %q and remembers %d relays, want nothing", r.writes, len(r.memo.relays))
	}
}
