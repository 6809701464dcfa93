//go:build e2e

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func TestAnImageThatCannotBeHadIsNamedWithTheNextStep(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(small("noimage", "  tls: {mode: SelfSigned}\n  image: registry.invalid/moq-relay:none\n"))
	relay := s.condition("noimage", v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonImagePull,
		"pod noimage-", "on node ", `image "registry.invalid/moq-relay:none"`)
	if err := has(relay, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoReadyPods); err != nil {
		t.Error(err)
	}
	// Correcting the spec is all that it takes.
	s.kubectl("patch", "moqrelay", "noimage", "--type=merge", "-p", `{"spec":{"image":null}}`)
	relay = s.ready("noimage")
	if err := has(relay, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected); err != nil {
		t.Error(err)
	}
}

func TestAMissingSecretIsNamedAndItsRelayStartsByItselfOnceItIsThere(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(small("nosecret", "  tls: {secretName: late}\n"))
	relay := s.condition("nosecret", v1alpha1.ConditionCertificateReady, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing,
		"pod nosecret-", "on node ", `Secret "late" does not exist`, "kubectl create secret tls late")
	if err := has(relay, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoReadyPods, `waits for Secret "late"`); err != nil {
		t.Error(err)
	}
	pod := onlyPod(t, s, "nosecret")
	s.tlsSecret("late")
	relay = s.ready("nosecret")
	if err := has(relay, v1alpha1.ConditionCertificateReady, metav1.ConditionTrue, v1alpha1.ReasonValid, `Secret "late"`); err != nil {
		t.Error(err)
	}
	now := onlyPod(t, s, "nosecret")
	if now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("pod %s with %d restarts serves, want %s with none", now.Name, now.Status.ContainerStatuses[0].RestartCount, pod.Name)
	}
}

func TestAPodWithoutANodeIsToldWithTheSchedulersText(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(small("nonode", "  tls: {mode: SelfSigned}\n  pod: {nodeSelector: {moqrelay.test/disk: golden}}\n"))
	s.condition("nonode", v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonUnschedulable,
		"pod nonode-", "no node for more than 60 s", "didn't match Pod's node affinity/selector", "lower resources or selectors, or add a node")
}

func TestWhatCannotBeIsRefusedAtAdmissionWithItsField(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for _, row := range []struct{ name, spec, field, message string }{
		{
			"a window larger than the connection's", "  tls: {mode: SelfSigned}\n  windows: {stream: 8Mi, connection: 4Mi}\n",
			"spec.windows.connection", "windows.connection must be at least twice windows.stream",
		},
		{"a Secret that is not named", "  tls: {mode: Secret}\n", "spec.tls.secretName", "tls.secretName is required"},
		{"a mode that does not exist", "  tls: {mode: Sometimes}\n", "spec.tls.mode", `"Secret", "SelfSigned"`},
		{"two replicas with a certificate each", "  replicas: 2\n  tls: {mode: SelfSigned}\n", "spec.replicas", "replicas must be at most 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := space{s.name, t}.refused(small("never", row.spec), "apply", "--server-side", "-f", "-")
			if !strings.Contains(text, row.field) || !strings.Contains(text, row.message) {
				t.Errorf("the refusal lacks %q or %q: %s", row.field, row.message, text)
			}
		})
	}
}
