package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

var allowed = map[string]string{v1alpha1.LabelHostAccess: v1alpha1.HostAccessAllowed}

// label sets the labels of the rig's namespace.
func (r *rig) label(t *testing.T, labels map[string]string) {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := r.Client.Get(t.Context(), client.ObjectKey{Name: r.relay.Namespace}, ns); err != nil {
		t.Fatal(err)
	}
	ns.Labels = labels
	if err := r.Client.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
}

// edit changes the relay as a user does.
func (r *rig) edit(t *testing.T, change func(spec *v1alpha1.MoQRelaySpec)) {
	t.Helper()
	change(&r.relay.Spec)
	r.relay.Generation++
	if err := r.Client.Update(t.Context(), r.relay); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) mode(t *testing.T) v1alpha1.SocketBuffersMode {
	t.Helper()
	return render.ModeOf(&r.deployment(t).Spec.Template.Spec)
}

func TestAutoRaisesOnlyWhereTheNamespaceAllows(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		want   v1alpha1.SocketBuffersMode
	}{{nil, v1alpha1.SocketBuffersVerify}, {allowed, v1alpha1.SocketBuffersRaiseNode}} {
		r := newRig(t, c.labels)
		r.pass(t)
		if got := r.mode(t); got != c.want || r.relay.Status.SocketBuffers.Mode != c.want {
			t.Errorf("labels %v: pods have %s and the status says %s, want %s", c.labels, got, r.relay.Status.SocketBuffers.Mode, c.want)
		}
	}
}

func TestALabelOnTheNamespaceRestartsNoRelay(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	r.label(t, allowed)
	if got := r.pass(t); len(got) != 0 || r.mode(t) != v1alpha1.SocketBuffersVerify {
		t.Fatalf("after the label came: writes %q, mode %s; want none and Verify", got, r.mode(t))
	}
	r.edit(t, func(s *v1alpha1.MoQRelaySpec) { s.Windows.MaxIncomingStreams = new(int32(2048)) })
	r.pass(t)
	if got := r.mode(t); got != v1alpha1.SocketBuffersRaiseNode {
		t.Fatalf("a new template has %s, want RaiseNode", got)
	}
	r.label(t, nil)
	if got := r.pass(t); len(got) != 0 || r.mode(t) != v1alpha1.SocketBuffersRaiseNode {
		t.Errorf("after the label went: writes %q, mode %s; want none and RaiseNode", got, r.mode(t))
	}
}

func TestScalingKeepsTheMode(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	r.label(t, allowed)
	r.edit(t, func(s *v1alpha1.MoQRelaySpec) { s.Replicas = new(int32(2)) })
	r.pass(t)
	if got := r.mode(t); got != v1alpha1.SocketBuffersVerify || *r.deployment(t).Spec.Replicas != 2 {
		t.Errorf("scaled to %d in mode %s, want 2 in Verify", *r.deployment(t).Spec.Replicas, got)
	}
}

func TestRaiseNodeNeedsPermission(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	r.edit(t, func(s *v1alpha1.MoQRelaySpec) {
		s.SocketBuffers.Mode = v1alpha1.SocketBuffersRaiseNode
		s.Windows.Stream = new(resource.MustParse("2Mi"))
	})
	if got := r.pass(t); !slices.Equal(got, []string{"update status MoQRelay"}) {
		t.Errorf("without permission we write %q, want the status alone", got)
	}
	if got := r.reason(v1alpha1.ConditionReady); got != v1alpha1.ReasonHostAccessNotAllowed {
		t.Errorf("Ready says %s, want HostAccessNotAllowed", got)
	}
	r.AllowHost = true
	r.pass(t)
	if got := r.mode(t); got != v1alpha1.SocketBuffersRaiseNode {
		t.Errorf("with --host-access=all the mode is %s, want RaiseNode", got)
	}
}

func TestAPausedRelayIsLeftAlone(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	r.relay.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
	r.edit(t, func(s *v1alpha1.MoQRelaySpec) { s.Replicas = new(int32(3)) })
	if got := r.pass(t); !slices.Equal(got, []string{"update status MoQRelay"}) || *r.deployment(t).Spec.Replicas != 1 {
		t.Errorf("paused, we write %q, want the status alone", got)
	}
	if r.reason(v1alpha1.ConditionReconciled) != v1alpha1.ReasonPaused || r.relay.Status.ObservedGeneration != r.relay.Generation {
		t.Errorf("Reconciled says %s at generation %d, want Paused at %d", r.reason(v1alpha1.ConditionReconciled), r.relay.Status.ObservedGeneration, r.relay.Generation)
	}
	r.relay.Annotations = nil
	r.edit(t, func(*v1alpha1.MoQRelaySpec) {})
	if r.pass(t); *r.deployment(t).Spec.Replicas != 3 {
		t.Errorf("after the pause there are %d replicas, want 3", *r.deployment(t).Spec.Replicas)
	}
}
