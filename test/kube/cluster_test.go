//go:build kube

package kube

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
	"github.com/moqrelay/operator/relay/preflight"
)

// newRelay is the smallest MoQRelay with a Secret; the API server fills the rest.
func newRelay(namespace string) *v1alpha1.MoQRelay {
	return &v1alpha1.MoQRelay{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: namespace},
		Spec: v1alpha1.MoQRelaySpec{
			Auth:    v1alpha1.AuthSpec{Mode: v1alpha1.AuthNone},
			TLS:     v1alpha1.TLSSpec{SecretName: "tls"},
			Service: v1alpha1.ServiceSpec{Type: v1alpha1.ServiceNodePort},
		},
	}
}

func create(t testing.TB, relay *v1alpha1.MoQRelay) *v1alpha1.MoQRelay {
	t.Helper()
	if err := admin.Create(t.Context(), relay); err != nil {
		t.Fatal(err)
	}
	return relay
}

// refresh reads an object anew.
func refresh[T client.Object](t testing.TB, obj T) T {
	t.Helper()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// edit changes an object as a person does with kubectl edit.
func edit[T client.Object](t testing.TB, obj T, change func(obj T)) T {
	t.Helper()
	eventually(t, "edit "+obj.GetName(), func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return admin.Update(t.Context(), obj, client.FieldOwner("kubectl-edit"))
	})
	return obj
}

// deploymentOf names the relay's Deployment, to be read.
func deploymentOf(relay *v1alpha1.MoQRelay) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: relay.Namespace, Name: relay.Name}}
}

// serviceOf names the relay's Service, to be read.
func serviceOf(relay *v1alpha1.MoQRelay) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: relay.Namespace, Name: relay.Name}}
}

// condition is the relay's condition of a type; empty before it exists.
func condition(relay *v1alpha1.MoQRelay, kind string) metav1.Condition {
	for _, c := range relay.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// wantCondition waits until a condition says so about the relay's present spec,
// and returns it.
func wantCondition(t testing.TB, relay *v1alpha1.MoQRelay, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	eventually(t, fmt.Sprintf("%s=%s/%s", kind, status, reason), func() error {
		refresh(t, relay)
		c = condition(relay, kind)
		if c.Status != status || c.Reason != reason || relay.Status.ObservedGeneration != relay.Generation {
			return fmt.Errorf("%s=%s/%s at generation %d of %d: %s", kind, c.Status, c.Reason, relay.Status.ObservedGeneration, relay.Generation, c.Message)
		}
		return nil
	})
	return c
}

// applied waits until the operator has applied the relay's present spec.
func applied(t testing.TB, relay *v1alpha1.MoQRelay) {
	t.Helper()
	wantCondition(t, relay, v1alpha1.ConditionReconciled, metav1.ConditionTrue, v1alpha1.ReasonApplied)
}

// newPod makes a pod of the Deployment's present template, as its controller
// would, already on a node.
func newPod(t testing.TB, relay *v1alpha1.MoQRelay, name, node string) *corev1.Pod {
	t.Helper()
	d := refresh(t, deploymentOf(relay))
	p := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	p.Name, p.Namespace, p.Spec.NodeName = name, relay.Namespace, node
	if err := admin.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// setPod writes a pod's status as its kubelet does.
func setPod(t testing.TB, p *corev1.Pod, change func(s *corev1.PodStatus)) {
	t.Helper()
	eventually(t, "status of pod "+p.Name, func() error {
		refresh(t, p)
		change(&p.Status)
		return admin.Status().Update(t.Context(), p)
	})
}

// running is the status of a pod whose relay is ready, or not yet.
func running(ready bool, report preflight.Report) func(s *corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Phase, s.HostIP, s.PodIP = corev1.PodRunning, "192.0.2.1", "10.1.0.1"
		s.HostIPs, s.PodIPs = []corev1.HostIP{{IP: s.HostIP}}, []corev1.PodIP{{IP: s.PodIP}}
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		s.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()},
		}
		text, _ := json.Marshal(report)
		s.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: render.ContainerPreflight, Image: relayImage, ImageID: "x",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(text), FinishedAt: metav1.Now()}},
		}}
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: render.ContainerRelay, Image: relayImage, ImageID: "x", Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	}
}

// report is that of a node which granted the sizes said, of 4 MiB asked.
func report(node string, rx, tx int64) preflight.Report {
	end := time.Now().Add(90 * 24 * time.Hour)
	return preflight.Report{
		V: preflight.SchemaVersion, Node: node, Mode: "Verify",
		RX: &preflight.Buffer{Want: 4 << 20, Max: rx, Got: rx}, TX: &preflight.Buffer{Want: 4 << 20, Max: tx, Got: tx},
		Certs: []preflight.Cert{{Secret: "tls", NotAfter: &end, Names: []string{"relay.example.test"}}},
	}
}

// setDeployment writes the status of a Deployment of which n pods exist and are
// available, as its controller does.
func setDeployment(t testing.TB, relay *v1alpha1.MoQRelay, n, available int32) {
	t.Helper()
	d := deploymentOf(relay)
	eventually(t, "status of the Deployment", func() error {
		refresh(t, d)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: available, AvailableReplicas: available,
			UnavailableReplicas: n - available,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
				LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		}
		return admin.Status().Update(t.Context(), d)
	})
}
