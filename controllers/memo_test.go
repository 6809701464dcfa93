package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func sceneOf(versions map[string]string) *scene {
	s := &scene{children: map[childKey]client.Object{}}
	for name, version := range versions {
		s.children[childKey{schema.GroupKind{Kind: "ConfigMap"}, name}] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	return s
}

func TestAnAgreementEndsWithAnyChange(t *testing.T) {
	agreed := map[string]string{"a": "1", "b": "2"}
	for _, c := range []struct {
		name   string
		change func(relay *v1alpha1.MoQRelay, s *scene)
		scene  map[string]string
		want   bool
	}{
		{"nothing changed", nil, agreed, true},
		{"a new spec", func(r *v1alpha1.MoQRelay, _ *scene) { r.Generation++ }, agreed, false},
		{"another relay of the name", func(r *v1alpha1.MoQRelay, _ *scene) { r.UID = types.UID("other") }, agreed, false},
		{"the namespace's permission", func(_ *v1alpha1.MoQRelay, s *scene) { s.hostAccess = true }, agreed, false},
		{"a child changed", nil, map[string]string{"a": "1", "b": "3"}, false},
		{"a child is gone", nil, map[string]string{"a": "1"}, false},
		{"a child more", nil, map[string]string{"a": "1", "b": "2", "c": "3"}, false},
		{"a child in place of another", nil, map[string]string{"a": "1", "c": "2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m memo
			relay := newRelay()
			m.remember(relay, sceneOf(agreed), plan{intended: intended{image: "x"}})
			s := sceneOf(c.scene)
			if c.change != nil {
				c.change(relay, s)
			}
			if got, ok := m.recall(relay, s); ok != c.want || (ok && got.image != "x") {
				t.Errorf("recalled %v, %v; want %v", got, ok, c.want)
			}
		})
	}
}

func TestARelayThatIsGoneIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.pass(t)
	if len(r.memo.relays) != 1 {
		t.Fatalf("after a pass %d relays are remembered, want 1", len(r.memo.relays))
	}
	if err := r.Client.Delete(t.Context(), r.relay); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), requestFor(r.relay)); err != nil || len(r.memo.relays) != 0 {
		t.Errorf("after its end %d relays are remembered (%v), want none", len(r.memo.relays), err)
	}
}
