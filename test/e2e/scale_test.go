//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func TestScaleGoesToThreePodsAndToNone(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.tlsSecret("cert")
	s.apply(small("wide", "  tls: {secretName: cert}\n"))
	s.ready("wide")
	wantColumns(t, s, "wide", "True", "1", "1")

	s.kubectl("scale", "moqrelay", "wide", "--replicas=3")
	relay := s.ready("wide")
	if st := relay.Status; st.Replicas != 3 || st.ReadyReplicas != 3 || st.UpdatedReplicas != 3 {
		t.Errorf("status has %d replicas, %d ready, %d updated; want 3 of each", st.Replicas, st.ReadyReplicas, st.UpdatedReplicas)
	}
	if n := len(s.pods("wide")); n != 3 {
		t.Errorf("%d pods, want 3", n)
	}
	wantColumns(t, s, "wide", "True", "3", "3")
	s.kubectl("scale", "moqrelay", "wide", "--replicas=0")
	s.condition("wide", v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonScaledToZero, "raise it to serve again")
	s.await(podKind, "the end of all pods", func() error {
		if n := len(s.pods("wide")); n > 0 {
			return fmt.Errorf("%d pods are left", n)
		}
		return nil
	})
	s.await(relayKind, "a status without pods", func() error {
		st := s.relay("wide").Status
		if st.Replicas != 0 || st.ReadyReplicas != 0 || st.DrainingReplicas != 0 {
			return fmt.Errorf("status has %d replicas, %d ready, %d draining", st.Replicas, st.ReadyReplicas, st.DrainingReplicas)
		}
		return nil
	})
	s.kubectl("get", "service", "wide")
}

func TestScalingARelayThatSignsItselfIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(small("alone", "  replicas: 0\n  tls: {mode: SelfSigned}\n"))
	text := s.refused("", "scale", "moqrelay", "alone", "--replicas=2")
	for _, want := range []string{"spec.replicas", "replicas must be at most 1 while tls.mode is SelfSigned", "use tls.mode Secret to scale"} {
		if !strings.Contains(text, want) {
			t.Errorf("the refusal lacks %q: %s", want, text)
		}
	}
	if got := *s.relay("alone").Spec.Replicas; got != 0 {
		t.Errorf("spec.replicas is %d after the refusal, want 0", got)
	}
}

// wantColumns wants READY, DESIRED and UP of kubectl get.
func wantColumns(t *testing.T, s space, name string, want ...string) {
	t.Helper()
	line := s.kubectl("get", "moqrelay", name, "--no-headers", "-o", "wide")
	if words := strings.Fields(line); len(words) < 4 || !slices.Equal(words[1:4], want) {
		t.Errorf("kubectl get says %q, want READY, DESIRED, UP %v", line, want)
	}
}

// event finds a Warning event about a relay.
func (s space) event(name, reason string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		out, err := kubectl(ctx, "", "-n", s.name, "get", "events", "--field-selector", "type=Warning,reason="+reason+",involvedObject.name="+name, "-o", "name")
		if err == nil && out == "" {
			err = errors.New("there is no such event")
		}
		return err
	}
}
