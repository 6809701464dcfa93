package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// Texts of a real API server.
const (
	podSecurityText = `pods "demo-5d5b8f9c4c-x2v5k" is forbidden: violates PodSecurity "restricted:latest": privileged (container "preflight" must not set securityContext.privileged=true)`
	quotaText       = `pods "demo-5d5b8f9c4c-x2v5k" is forbidden: exceeded quota: team, requested: requests.memory=256Mi, used: requests.memory=1Gi, limited: requests.memory=1Gi`
	webhookText     = `admission webhook "policy.example.test" denied the request: no privileged pods on Fridays`
)

func TestAvailable(t *testing.T) {
	runConditionCases(t, available, []conditionCase{
		{name: "three of three serve", status: trueStatus, reason: v1alpha1.ReasonMinimumReady, message: []string{"3 of 3 pods serve; at least 2 must"}},
		{name: "one lost pod of three is no outage", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 2
		}, status: trueStatus, reason: v1alpha1.ReasonMinimumReady},
		{name: "two lost pods of three are", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 1
			onePod(o, newStartingPod("demo-x", "n7"))
		}, status: falseStatus, reason: v1alpha1.ReasonBelowMinimum, message: []string{"1 of 3", "pod demo-x on node n7 starts"}},
		{name: "the only pod is lost", change: func(o *observation) {
			o.relay.Spec.Replicas = new(int32(1))
			o.deployment.Status.AvailableReplicas = 0
			o.pods = nil
		}, status: falseStatus, reason: v1alpha1.ReasonNoReadyPods, message: []string{"0 of 1", "no pod exists yet"}},
		{name: "a pod that waits for its Secret is named", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 0
			p := newStartingPod("demo-x", "n7")
			r := goodReport("n7")
			r.Certs = []preflight.Cert{{Secret: "tls", Err: preflight.ReasonSecretMissing}}
			setReport(&p, r)
			onePod(o, p)
		}, status: falseStatus, reason: v1alpha1.ReasonNoReadyPods, message: []string{`pod demo-x on node n7 waits for Secret "tls"`}},
		{name: "a waiting container is named with the kubelet's reason", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 0
			p := newStartingPod("demo-x", "n7")
			setWaiting(&p.Status.ContainerStatuses[0], "CreateContainerConfigError", "image will run as root")
			onePod(o, p)
		}, status: falseStatus, reason: v1alpha1.ReasonNoReadyPods, message: []string{"container relay waits (CreateContainerConfigError)"}},
		{name: "none are wanted", change: func(o *observation) {
			o.relay.Spec.Replicas = new(int32(0))
			o.deployment = nil
		}, status: trueStatus, reason: v1alpha1.ReasonScaledToZero},
		{name: "no Deployment yet", change: func(o *observation) { o.deployment = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "the Deployment was just made", change: func(o *observation) {
			o.deployment.Status = appsv1.DeploymentStatus{}
		}, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "pod security refuses", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 0
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(podSecurityText))
		}, status: falseStatus, reason: v1alpha1.ReasonPodSecurityDenied, message: []string{"privileged=true", "socketBuffers.mode to Verify"}},
		{name: "quota refuses", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 0
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(quotaText))
		}, status: falseStatus, reason: v1alpha1.ReasonQuotaExceeded, message: []string{"exceeded quota: team"}},
		{name: "a webhook refuses", change: func(o *observation) {
			o.deployment.Status.AvailableReplicas = 0
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(webhookText))
		}, status: falseStatus, reason: v1alpha1.ReasonAdmissionDenied, message: []string{"Fridays"}},
		{name: "a refusal while enough pods serve is not an outage", change: func(o *observation) {
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(podSecurityText))
		}, status: trueStatus, reason: v1alpha1.ReasonMinimumReady},
	})
}

func TestARefusalIsClassifiedWithoutThePodsRandomName(t *testing.T) {
	for _, c := range []struct{ text, reason, part string }{
		{podSecurityText, v1alpha1.ReasonPodSecurityDenied, "violates PodSecurity"},
		{quotaText, v1alpha1.ReasonQuotaExceeded, "requested: requests.memory=256Mi"},
		{webhookText, v1alpha1.ReasonAdmissionDenied, "no privileged pods on Fridays"},
	} {
		got := classifyRefusal(c.text)
		if got.reason != c.reason || !strings.Contains(got.message, c.part) || strings.Contains(got.message, "x2v5k") {
			t.Errorf("%.40s…: got %s (%s), want %s with %q and no random name", c.text, got.reason, got.message, c.reason, c.part)
		}
	}
}

func TestPodsThatHaveEndedAreNotCounted(t *testing.T) {
	evicted := newPod("demo-e", "n1")
	evicted.Status.Phase = corev1.PodFailed
	if pods := readPods([]corev1.Pod{newPod("demo-b", "n1"), evicted, newPod("demo-a", "n1")}); len(pods) != 2 || pods[0].Name != "demo-a" {
		t.Fatalf("got %d pods, first %q; want demo-a and demo-b", len(pods), pods[0].Name)
	}
}
