//go:build kube

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers"
)

// children are all objects that the operator made for a relay, by kind and name.
func children(t *testing.T, relay *v1alpha1.MoQRelay) map[string]client.Object {
	t.Helper()
	found := map[string]client.Object{}
	for kind, list := range map[string]client.ObjectList{
		"Deployment": &appsv1.DeploymentList{}, "Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{},
		"ServiceAccount": &corev1.ServiceAccountList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
		"NetworkPolicy": &networkingv1.NetworkPolicyList{},
	} {
		if err := admin.List(t.Context(), list, client.InNamespace(relay.Namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": controllers.FieldManager}); err != nil {
			t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			found[kind+" "+item.(client.Object).GetName()] = item.(client.Object)
			return nil
		})
	}
	return found
}

// configName is the name of the immutable ConfigMap that the pods mount.
func configName(t *testing.T, relay *v1alpha1.MoQRelay) string {
	t.Helper()
	for _, v := range refresh(t, deploymentOf(relay)).Spec.Template.Spec.Volumes {
		if v.ConfigMap != nil && strings.HasPrefix(v.ConfigMap.Name, relay.Name+"-cfg-") {
			return v.ConfigMap.Name
		}
	}
	t.Fatal("the pods mount no configuration")
	return ""
}

func TestARelayIsAppliedOnceAndThenNothingIsWritten(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	found := children(t, relay)
	want := []string{
		"ConfigMap " + configName(t, relay), "ConfigMap demo-live", "Deployment demo", "NetworkPolicy demo", "PodDisruptionBudget demo",
		"Service demo", "Service demo-peers", "ServiceAccount demo",
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Fatalf("children are %q, want %q", got, want)
	}
	for name, obj := range found {
		if owner := metav1.GetControllerOf(obj); owner == nil || owner.UID != relay.UID || !*owner.BlockOwnerDeletion || len(obj.GetFinalizers()) > 0 {
			t.Errorf("%s: owner %+v, finalizers %v; want the relay and none, so that the garbage collector takes it", name, owner, obj.GetFinalizers())
		}
	}
	op.wantNoWrites(t, relay)
}

func TestARestartOfTheOperatorWritesNothing(t *testing.T) {
	ns := newNamespace(t, nil)
	first := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	p := newPod(t, relay, "demo-a", "n1")
	setPod(t, p, running(true, report("n1", 4<<20, 4<<20)))
	setDeployment(t, relay, 1, 1)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	first.wantNoWrites(t, relay)
	first.stop()

	second := newOperator(t, ns)
	second.turn(t, relay)
	second.turn(t, relay)
	writes, passes := second.count()
	if len(writes) > 0 || passes < 4 {
		t.Errorf("in %d passes the new operator wrote %q, want nothing", passes, writes)
	}
	if second.events > 0 {
		t.Errorf("the new operator told %d events again, want none", second.events)
	}
}

func TestDefaultsAreTheDocumented(t *testing.T) {
	relay := create(t, newRelay(newNamespace(t, nil)))
	s := relay.Spec
	got := fmt.Sprintln(*s.Replicas, s.SocketBuffers.Mode, s.SocketBuffers.Receive, s.Windows.Stream, s.Windows.Connection, *s.Service.Port, *s.Drain.TimeoutSeconds, s.Log.Level, s.TLS.Mode)
	if want := "1 Auto 4Mi 1Mi 4Mi 443 300 info Secret\n"; got != want {
		t.Errorf("defaults are %s, want %s", got, want)
	}
}

func TestDriftIsRepairedAndForeignFieldsAreKept(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	edit(t, deploymentOf(relay), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "moqrelay.test/other:9"
		d.Annotations = map[string]string{"test.example/note": "kept"}
	})
	eventually(t, "image repaired", func() error {
		d := refresh(t, deploymentOf(relay))
		if image := d.Spec.Template.Spec.Containers[0].Image; image != relayImage || d.Annotations["test.example/note"] != "kept" {
			return fmt.Errorf("image %s, annotations %v", image, d.Annotations)
		}
		return nil
	})
	// Without its label the object leaves the operator's cache.
	edit(t, serviceOf(relay), func(s *corev1.Service) { delete(s.Labels, "app.kubernetes.io/managed-by") })
	eventually(t, "label repaired", func() error {
		if l := refresh(t, serviceOf(relay)).Labels; l["app.kubernetes.io/managed-by"] != controllers.FieldManager {
			return fmt.Errorf("labels %v", l)
		}
		return nil
	})
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo-live"}}
	if err := admin.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ConfigMap made again", func() error { return admin.Get(t.Context(), client.ObjectKeyFromObject(live), live) })
	op.wantNoWrites(t, relay)
}

func TestAForeignServiceIsNeverTouched(t *testing.T) {
	ns := newNamespace(t, nil)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if err := admin.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	c := wantCondition(t, relay, v1alpha1.ConditionReconciled, metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
	if !strings.Contains(c.Message, `Service "demo"`) {
		t.Errorf("the message %q does not name the Service", c.Message)
	}
	if got := children(t, relay); len(got) > 0 {
		t.Errorf("%v were made beside the foreign Service, want nothing", slices.Collect(maps.Keys(got)))
	}
	version := foreign.ResourceVersion
	if refresh(t, foreign); foreign.ResourceVersion != version {
		t.Errorf("the foreign Service was changed")
	}
	op.wantNoWrites(t, relay)
	if err := admin.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	op.turn(t, relay)
	applied(t, relay)
}

func TestARefusedWriteIsToldWithTheServersText(t *testing.T) {
	ns := newNamespace(t, nil)
	newOperator(t, ns)
	relay := newRelay(ns)
	relay.Spec.Service.NodePort = new(int32(80)) // outside the cluster's range
	create(t, relay)
	c := wantCondition(t, relay, v1alpha1.ConditionReconciled, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed)
	if !strings.Contains(c.Message, `Service "demo"`) || !strings.Contains(c.Message, "nodePort") {
		t.Errorf("the message %q does not name the Service and its nodePort", c.Message)
	}
	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Service.NodePort = nil })
	applied(t, relay)
}

func TestARestartingFieldMakesANewConfigurationAndALiveOneDoesNot(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	before, generation := configName(t, relay), refresh(t, deploymentOf(relay)).Generation
	liveHash := relay.Status.LiveConfigHash

	edit(t, relay, func(r *v1alpha1.MoQRelay) {
		r.Spec.Log.Level = "debug"
		r.Spec.Cache.MaxBytes = new(resource.MustParse("64Mi"))
	})
	applied(t, relay)
	if d := refresh(t, deploymentOf(relay)); d.Generation != generation || configName(t, relay) != before {
		t.Errorf("log.level and cache.maxBytes moved the Deployment to generation %d with %s, want %d with %s", d.Generation, configName(t, relay), generation, before)
	}
	if relay.Status.LiveConfigHash == liveHash {
		t.Error("log.level and cache.maxBytes did not change status.liveConfigHash")
	}

	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Windows.Stream = new(resource.MustParse("2Mi")) })
	applied(t, relay)
	after := configName(t, relay)
	if after == before || !strings.HasPrefix(relay.Status.ConfigHash, strings.TrimPrefix(after, "demo-cfg-")) {
		t.Errorf("windows.stream: the pods mount %s after %s, status.configHash is %s", after, before, relay.Status.ConfigHash)
	}
	if cm := children(t, relay)["ConfigMap "+after].(*corev1.ConfigMap); !*cm.Immutable {
		t.Errorf("%s is not immutable", after)
	}
	op.wantNoWrites(t, relay)
}

func TestOldConfigurationsBeyondTheHistoryArePruned(t *testing.T) {
	ns := newNamespace(t, nil)
	newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	first := configName(t, relay)
	newPod(t, relay, "demo-a", "n1") // mounts the first for ever
	for i := range 6 {
		edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Windows.MaxIncomingStreams = new(int32(2000 + int32(i))) })
		applied(t, relay)
	}
	eventually(t, "configurations pruned", func() error {
		var configs []string
		for name := range children(t, relay) {
			if strings.HasPrefix(name, "ConfigMap demo-cfg-") {
				configs = append(configs, strings.TrimPrefix(name, "ConfigMap "))
			}
		}
		if len(configs) != 5 || !slices.Contains(configs, first) || !slices.Contains(configs, configName(t, relay)) {
			return fmt.Errorf("%v are left, want the present one, three older, and %s which a pod mounts", configs, first)
		}
		return nil
	})
}

func TestServiceTypeNoneDeletesTheService(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Service.Type = v1alpha1.ServiceNone })
	applied(t, relay)
	eventually(t, "Service deleted", func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(relay), serviceOf(relay)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Service.Type = v1alpha1.ServiceClusterIP })
	applied(t, relay)
	if s := refresh(t, serviceOf(relay)); s.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service's type is %s, want ClusterIP", s.Spec.Type)
	}
	op.wantNoWrites(t, relay)
}

func TestDeletionIsLeftToTheGarbageCollector(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	other := newRelay(ns)
	other.Name = "other"
	create(t, other)
	applied(t, relay)
	applied(t, other)
	op.turn(t, other)
	op.forget()
	if err := admin.Delete(t.Context(), relay); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(relay), relay); !apierrors.IsNotFound(err) {
		t.Errorf("the relay is still there (%v): something holds it", err)
	}
	op.turn(t, other)
	if writes, _ := op.count(); len(writes) > 0 {
		t.Errorf("after the deletion the operator wrote %q, want nothing", writes)
	}
}

func TestAPausedRelayIsLeftAloneUntilItIsNot(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	edit(t, relay, func(r *v1alpha1.MoQRelay) {
		r.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		r.Spec.Replicas = new(int32(4))
	})
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPaused)
	op.wantNoWrites(t, relay)
	if d := refresh(t, deploymentOf(relay)); *d.Spec.Replicas != 1 {
		t.Errorf("paused, the Deployment was scaled to %d", *d.Spec.Replicas)
	}
	edit(t, relay, func(r *v1alpha1.MoQRelay) { delete(r.Annotations, v1alpha1.AnnotationPaused) })
	applied(t, relay)
	if d := refresh(t, deploymentOf(relay)); *d.Spec.Replicas != 4 {
		t.Errorf("after the pause the Deployment has %d replicas, want 4", *d.Spec.Replicas)
	}
}

func TestRaiseNodeWaitsForTheLabelOnTheNamespace(t *testing.T) {
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := newRelay(ns)
	relay.Spec.SocketBuffers.Mode = v1alpha1.SocketBuffersRaiseNode
	create(t, relay)
	c := wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHostAccessNotAllowed)
	if !strings.Contains(c.Message, "moqrelay.io/host-access=allowed") || !strings.Contains(c.Message, ns) {
		t.Errorf("the message %q does not name label and namespace", c.Message)
	}
	if got := children(t, relay); len(got) > 0 {
		t.Errorf("%v were made without permission, want nothing", slices.Collect(maps.Keys(got)))
	}
	op.wantNoWrites(t, relay)
	edit(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
		n.Labels[v1alpha1.LabelHostAccess] = v1alpha1.HostAccessAllowed
	})
	applied(t, relay)
	if relay.Status.SocketBuffers.Mode != v1alpha1.SocketBuffersRaiseNode {
		t.Errorf("status.socketBuffers.mode is %s, want RaiseNode", relay.Status.SocketBuffers.Mode)
	}
	op.wantNoWrites(t, relay)
}
