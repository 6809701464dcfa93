//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// failsafe ends a wait for something that does not come.
const failsafe = 5 * time.Minute

// Kinds that are watched.
var (
	relayKind = v1alpha1.GroupVersion.WithKind("MoQRelay")
	podKind   = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// await calls check at the start and after each change of an object of the kind in
// the namespace, until it finds no fault. The test fails with the last fault when
// that does not come.
func (s space) await(kind schema.GroupVersionKind, what string, check func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), failsafe)
	defer cancel()
	last := errors.New("nothing was seen")
	for ctx.Err() == nil {
		events, err := watch(ctx, kind, client.InNamespace(s.name))
		if err != nil {
			last = err
			break
		}
		for range events {
			if last = check(); last == nil {
				return
			}
		}
	}
	s.t.Fatalf("%s did not come within %v: %v", what, failsafe, last)
}

// watch returns a channel that has a value at once and after each change. It is
// closed when the watch ends.
func watch(ctx context.Context, kind schema.GroupVersionKind, where ...client.ListOption) (<-chan struct{}, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	w, err := admin.Watch(ctx, list, where...)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	events := make(chan struct{}, 1)
	events <- struct{}{}
	go func() {
		defer close(events)
		defer w.Stop()
		for range w.ResultChan() {
			select {
			case events <- struct{}{}:
			default: // one that was not taken yet stands for this one too
			}
		}
	}()
	return events, nil
}

// poll is for what cannot be watched.
func poll(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 250*time.Millisecond, failsafe, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s did not come within %v: %v", what, failsafe, last)
	}
}

// ready waits until the relay is ready as it is asked for now, with no rollout or
// drain under way, and returns it.
func (s space) ready(name string) *v1alpha1.MoQRelay {
	s.t.Helper()
	var relay *v1alpha1.MoQRelay
	s.await(relayKind, "a ready relay "+name, func() error {
		relay = s.relay(name)
		if relay.Status.ObservedGeneration != relay.Generation {
			return fmt.Errorf("generation %d, the operator has seen %d", relay.Generation, relay.Status.ObservedGeneration)
		}
		return errors.Join(
			has(relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady),
			has(relay, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRolloutComplete))
	})
	return relay
}

// condition waits for a condition whose message has all the words.
func (s space) condition(name, kind string, want metav1.ConditionStatus, reason string, words ...string) *v1alpha1.MoQRelay {
	s.t.Helper()
	var relay *v1alpha1.MoQRelay
	s.await(relayKind, fmt.Sprintf("%s=%s/%s of %s", kind, want, reason, name), func() error {
		relay = s.relay(name)
		return has(relay, kind, want, reason, words...)
	})
	return relay
}

// has says how a condition differs from what is wanted.
func has(relay *v1alpha1.MoQRelay, kind string, want metav1.ConditionStatus, reason string, words ...string) error {
	c := meta.FindStatusCondition(relay.Status.Conditions, kind)
	if c == nil {
		return fmt.Errorf("%s: there is no such condition yet", kind)
	}
	if c.Status != want || c.Reason != reason {
		return fmt.Errorf("%s is %s/%s (%s), want %s/%s", kind, c.Status, c.Reason, c.Message, want, reason)
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			return fmt.Errorf("the message of %s lacks %q: %s", kind, word, c.Message)
		}
	}
	return nil
}
