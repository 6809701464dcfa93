//go:build kube

package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// newServing is a relay with one ready pod demo-a on node n1.
func newServing(t testing.TB) (*operator, *v1alpha1.MoQRelay, *corev1.Pod) {
	t.Helper()
	ns := newNamespace(t, nil)
	op := newOperator(t, ns)
	relay := create(t, newRelay(ns))
	applied(t, relay)
	p := newPod(t, relay, "demo-a", "n1")
	setPod(t, p, running(true, report("n1", 4<<20, 4<<20)))
	setDeployment(t, relay, 1, 1)
	return op, relay, p
}

// wantEvent waits for an event about the relay.
func wantEvent(t *testing.T, relay *v1alpha1.MoQRelay, kind, reason string) {
	t.Helper()
	eventually(t, "event "+reason, func() error {
		var list eventsv1.EventList
		if err := admin.List(t.Context(), &list, client.InNamespace(relay.Namespace)); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Type == kind && e.Regarding.UID == relay.UID {
				return nil
			}
			seen = append(seen, e.Type+" "+e.Reason)
		}
		return fmt.Errorf("seen %q", seen)
	})
}

func TestAReadyPodMakesTheRelayReady(t *testing.T) {
	op, relay, _ := newServing(t)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	for kind, want := range map[string]string{
		"Reconciled": "True/Applied", "Available": "True/MinimumReady", "Progressing": "False/RolloutComplete", "Degraded": "False/AsExpected",
		"SocketBuffersReady": "True/Granted", "CertificateReady": "True/Valid", "AddressReady": "True/Assigned",
	} {
		eventually(t, kind, func() error {
			c := condition(refresh(t, relay), kind)
			if got := string(c.Status) + "/" + c.Reason; got != want {
				return fmt.Errorf("%s is %s, want %s", kind, got, want)
			}
			return nil
		})
	}
	port := refresh(t, serviceOf(relay)).Spec.Ports[0].NodePort
	var urls []string
	for _, e := range relay.Status.Endpoints {
		urls = append(urls, string(e.Transport)+" "+e.URL)
	}
	want := []string{fmt.Sprintf("WebTransport https://192.0.2.1:%d", port), fmt.Sprintf("WebSocket https://192.0.2.1:%d", port), fmt.Sprintf("QUIC moqt://192.0.2.1:%d", port)}
	if !slices.Equal(urls, want) {
		t.Errorf("endpoints are %q, want %q", urls, want)
	}
	if b := relay.Status.SocketBuffers; b.Receive.GrantedMin.String() != "4Mi" || b.Mode != v1alpha1.SocketBuffersVerify {
		t.Errorf("socketBuffers are %+v, want 4Mi by Verify", b)
	}
	wantEvent(t, relay, corev1.EventTypeWarning, v1alpha1.EventRelayOpen)
	wantEvent(t, relay, corev1.EventTypeNormal, v1alpha1.EventAddressAssigned)
	op.wantNoWrites(t, relay)
}

func TestASmallGrantNamesPodNodeAndFigures(t *testing.T) {
	_, relay, p := newServing(t)
	setPod(t, p, running(true, report("n1", 212992, 212992)))
	c := wantCondition(t, relay, v1alpha1.ConditionSocketBuffersReady, metav1.ConditionFalse, v1alpha1.ReasonReceiveBelowRequested)
	if !strings.Contains(c.Message, "pod demo-a on node n1: 212992 of 4194304 bytes") {
		t.Errorf("the message is %q", c.Message)
	}
	if b := relay.Status.SocketBuffers; b.Receive.GrantedMin.Value() != 212992 || !slices.Equal(b.NodesBelow, []string{"n1"}) {
		t.Errorf("socketBuffers are %+v, want 212992 and node n1", b)
	}
	wantEvent(t, relay, corev1.EventTypeWarning, v1alpha1.ReasonReceiveBelowRequested)
	if r := condition(relay, v1alpha1.ConditionReady); r.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %s, want True: a small buffer is no outage", r.Status)
	}
}

func TestASecretThatAppearsLateMakesTheCertificateReady(t *testing.T) {
	_, relay, p := newServing(t)
	missing := report("n1", 4<<20, 4<<20)
	missing.Certs = []preflight.Cert{{Secret: "tls", Err: preflight.ReasonSecretMissing}}
	setPod(t, p, running(false, missing))
	setDeployment(t, relay, 1, 0)
	c := wantCondition(t, relay, v1alpha1.ConditionCertificateReady, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
	if !strings.Contains(c.Message, `Secret "tls"`) {
		t.Errorf("the message %q does not name the Secret", c.Message)
	}
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoReadyPods)
	setPod(t, p, running(true, missing))
	setDeployment(t, relay, 1, 1)
	wantCondition(t, relay, v1alpha1.ConditionCertificateReady, metav1.ConditionTrue, v1alpha1.ReasonValid)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
}

func TestABadImageIsToldWithPodAndImage(t *testing.T) {
	_, relay, _ := newServing(t)
	setPod(t, newPod(t, relay, "demo-b", "n2"), func(s *corev1.PodStatus) {
		s.Phase = corev1.PodPending
		s.InitContainerStatuses = []corev1.ContainerStatus{{Name: "preflight", Image: "moqrelay.test/typo:1", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "moqrelay.test/typo:1": ErrImagePull: not found`},
		}}}
	})
	c := wantCondition(t, relay, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePull)
	if !strings.Contains(c.Message, `pod demo-b on node n2 cannot have image "moqrelay.test/typo:1"`) {
		t.Errorf("the message is %q", c.Message)
	}
	if r := condition(relay, v1alpha1.ConditionReady); r.Status != metav1.ConditionTrue {
		t.Errorf("Ready is %s, want True: the old pod serves", r.Status)
	}
}

func TestAPodWithoutANodeIsToldAtTheSixtiethSecondWithoutAnyEvent(t *testing.T) {
	_, relay, _ := newServing(t)
	began := metav1.NewTime(time.Now().Add(-57 * time.Second).Truncate(time.Second))
	setPod(t, newPod(t, relay, "demo-b", ""), func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 Insufficient cpu.", LastTransitionTime: began,
		}}
	})
	c := wantCondition(t, relay, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUnschedulable)
	if !strings.Contains(c.Message, "1 Insufficient cpu") || c.LastTransitionTime.Time.Before(began.Add(time.Minute)) {
		t.Errorf("told at %v of a pod that began to wait at %v: %s", c.LastTransitionTime, began, c.Message)
	}
}

func TestARefusalByPodSecurityIsTold(t *testing.T) {
	_, relay, _ := newServing(t)
	d := deploymentOf(relay)
	eventually(t, "status of the Deployment", func() error {
		refresh(t, d)
		d.Status.AvailableReplicas = 0
		d.Status.ReadyReplicas = 0
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate",
			Message: `pods "demo-5d5b8f9c4c-x2v5k" is forbidden: violates PodSecurity "restricted:latest": privileged`,
		})
		return admin.Status().Update(t.Context(), d)
	})
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing} {
		wantCondition(t, relay, kind, metav1.ConditionFalse, v1alpha1.ReasonPodSecurityDenied)
	}
	wantCondition(t, relay, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodSecurityDenied)
}

// scale writes the scale subresource, as kubectl scale and an autoscaler do.
func scale(t *testing.T, relay *v1alpha1.MoQRelay, n int32) error {
	t.Helper()
	s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	return admin.SubResource("scale").Update(t.Context(), relay.DeepCopy(), client.WithSubResourceBody(s))
}

func TestScaleWorksOnTheRelay(t *testing.T) {
	op, relay, _ := newServing(t)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	if err := scale(t, relay, 3); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Deployment scaled", func() error {
		if n := *refresh(t, deploymentOf(relay)).Spec.Replicas; n != 3 {
			return fmt.Errorf("%d replicas", n)
		}
		return nil
	})
	for _, name := range []string{"demo-b", "demo-c"} {
		setPod(t, newPod(t, relay, name, "n1"), running(true, report("n1", 4<<20, 4<<20)))
	}
	setDeployment(t, relay, 3, 3)
	eventually(t, "three ready", func() error {
		if s := refresh(t, relay).Status; s.Replicas != 3 || s.ReadyReplicas != 3 || s.UpdatedReplicas != 3 {
			return fmt.Errorf("%d %d %d", s.Replicas, s.ReadyReplicas, s.UpdatedReplicas)
		}
		return nil
	})
	got := &autoscalingv1.Scale{}
	if err := admin.SubResource("scale").Get(t.Context(), relay, got); err != nil {
		t.Fatal(err)
	}
	if want := "app.kubernetes.io/instance=demo,app.kubernetes.io/name=moq-relay"; got.Status.Replicas != 3 || got.Status.Selector != want {
		t.Errorf("scale says %d replicas by %q, want 3 by %q", got.Status.Replicas, got.Status.Selector, want)
	}
	op.wantNoWrites(t, relay)
}

func TestScaleToZeroIsAvailable(t *testing.T) {
	op, relay, p := newServing(t)
	if err := scale(t, relay, 0); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, relay, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonScaledToZero)
	if err := admin.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	setDeployment(t, relay, 0, 0)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonScaledToZero)
	eventually(t, "no endpoint", func() error {
		if s := refresh(t, relay).Status; len(s.Endpoints) != 0 || s.Replicas != 0 {
			return fmt.Errorf("%d replicas at %v", s.Replicas, s.Endpoints)
		}
		return nil
	})
	op.wantNoWrites(t, relay)
}

func TestScaleOfASelfSignedRelayIsRefused(t *testing.T) {
	relay := newRelay(newNamespace(t, nil))
	relay.Spec.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}
	create(t, relay)
	err := scale(t, relay, 3)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "replicas must be at most 1 while tls.mode is SelfSigned") {
		t.Errorf("scaling a self-signed relay to 3 gives %v, want our refusal", err)
	}
}
