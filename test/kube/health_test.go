//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/relay/status"
)

// statuses answers for the status ports of pods, by HOST:PORT.
type statuses struct {
	mu      sync.Mutex
	answers map[string]status.Document
	asked   map[string]int
}

func (s *statuses) ask(_ context.Context, address string) (status.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[address]++
	if d, ok := s.answers[address]; ok {
		return d, nil
	}
	return status.Document{}, errors.New("nobody answers")
}

// set makes a pod say that it has a session with so many of its peers.
func (s *statuses) set(address string, expected, connected int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[address] = status.Document{Schema: status.SchemaVersion, Cluster: &status.Cluster{Expected: expected, Connected: connected}}
}

// drop makes a pod silent.
func (s *statuses) drop(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, address)
}

// times waits until a pod was asked so many times more.
func (s *statuses) times(t *testing.T, address string, more int) {
	t.Helper()
	s.mu.Lock()
	before := s.asked[address]
	s.mu.Unlock()
	eventually(t, address+" is asked", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := s.asked[address] - before; got < more {
			return fmt.Errorf("%d of %d times", got, more)
		}
		return nil
	})
}

// collecting makes an operator ask the pods once a second.
func (s *statuses) collecting(r *controllers.Reconciler) {
	r.Health = &health.Config{Interval: time.Second, Ask: s.ask}
}

// address gives a pod an IP of its own.
func address(p *corev1.PodStatus, ip string) {
	p.PodIP, p.PodIPs = ip, []corev1.PodIP{{IP: ip}}
}

// newCollected is a relay of two ready pods that know each other, and an operator
// that asks them.
func newCollected(t *testing.T) (*operator, *v1alpha1.MoQRelay, *statuses) {
	t.Helper()
	ns := newNamespace(t, nil)
	s := &statuses{answers: map[string]status.Document{}, asked: map[string]int{}}
	s.set("10.1.0.1:9090", 1, 1)
	s.set("10.1.0.2:9090", 1, 1)
	op := newOperator(t, ns, s.collecting)
	relay := newRelay(ns)
	relay.Spec.Replicas = new(int32(2))
	create(t, relay)
	applied(t, relay)
	for name, ip := range map[string]string{"demo-a": "10.1.0.1", "demo-b": "10.1.0.2"} {
		setPod(t, newPod(t, relay, name, "n1"), func(p *corev1.PodStatus) {
			running(true, report("n1", 4<<20, 4<<20))(p)
			address(p, ip)
		})
	}
	setDeployment(t, relay, 2, 2)
	wantCondition(t, relay, v1alpha1.ConditionDataPlaneHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
	return op, relay, s
}

// wantPeers waits for the rows of status.peers, each "pod connected/expected".
func wantPeers(t *testing.T, relay *v1alpha1.MoQRelay, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("peers %q", want), func() error {
		var got []string
		for _, p := range refresh(t, relay).Status.Peers {
			got = append(got, fmt.Sprintf("%s %d/%d", p.Pod, p.Connected, p.Expected))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

func TestWhatPodsSayIsInTheStatusAndIsWrittenOnce(t *testing.T) {
	op, relay, s := newCollected(t)
	wantPeers(t, relay, "demo-a 1/1", "demo-b 1/1")
	op.wantNoWrites(t, relay)
	s.times(t, "10.1.0.1:9090", 5)
	if writes, _ := op.count(); len(writes) > 0 {
		t.Errorf("five samples later, with nothing new, the operator wrote %q", writes)
	}
	s.set("10.1.0.2:9090", 1, 0)
	wantPeers(t, relay, "demo-a 1/1", "demo-b 0/1")
	if c := condition(relay, v1alpha1.ConditionDataPlaneHealthy); c.Reason != v1alpha1.ReasonHealthy {
		t.Errorf("a peer that is missing for a moment makes %s/%s", c.Status, c.Reason)
	}
}

func TestASilentStatusPortIsUnknownAndRecovers(t *testing.T) {
	op, relay, s := newCollected(t)
	s.drop("10.1.0.1:9090")
	s.drop("10.1.0.2:9090")
	wantCondition(t, relay, v1alpha1.ConditionDataPlaneHealthy, metav1.ConditionUnknown, v1alpha1.ReasonStatusUnreachable)
	eventually(t, "both pods are told", func() error { // one of them is the first to be given up
		message := condition(refresh(t, relay), v1alpha1.ConditionDataPlaneHealthy).Message
		for _, part := range []string{"pod demo-a on node n1", "TCP port 9090", "(and 1 more pods)"} {
			if !strings.Contains(message, part) {
				return fmt.Errorf("the message is %q", message)
			}
		}
		return nil
	})
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	op.wantNoWrites(t, relay)
	s.set("10.1.0.1:9090", 1, 1)
	s.set("10.1.0.2:9090", 1, 1)
	wantCondition(t, relay, v1alpha1.ConditionDataPlaneHealthy, metav1.ConditionTrue, v1alpha1.ReasonHealthy)
}

func TestANewOperatorKeepsWhatPodsSaidUntilTheySaySoAgain(t *testing.T) {
	first, relay, s := newCollected(t)
	wantPeers(t, relay, "demo-a 1/1", "demo-b 1/1")
	first.wantNoWrites(t, relay)
	first.stop()
	second := newOperator(t, relay.Namespace, s.collecting)
	second.turn(t, relay)
	s.times(t, "10.1.0.1:9090", 3)
	second.turn(t, relay)
	if writes, _ := second.count(); len(writes) > 0 {
		t.Errorf("after a restart the operator wrote %q, want nothing", writes)
	}
}

func TestPodsOfADeletedRelayAreNotAskedAnyMore(t *testing.T) {
	_, relay, s := newCollected(t)
	other := newRelay(relay.Namespace)
	other.Name = "other"
	create(t, other)
	applied(t, other)
	setPod(t, newPod(t, other, "other-a", "n1"), func(p *corev1.PodStatus) {
		running(true, report("n1", 4<<20, 4<<20))(p)
		address(p, "10.1.0.9")
	})
	if err := admin.Delete(t.Context(), relay); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is left alone", func() error {
		s.mu.Lock()
		before := s.asked["10.1.0.1:9090"]
		s.mu.Unlock()
		s.times(t, "10.1.0.9:9090", 3)
		s.mu.Lock()
		defer s.mu.Unlock()
		if after := s.asked["10.1.0.1:9090"]; after != before {
			return fmt.Errorf("asked %d times more while another pod was asked three times", after-before)
		}
		return nil
	})
}

// works makes both pods say by which files they work.
func (s *statuses) works(config, live, rejected string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for address, d := range s.answers {
		d.Config = status.Config{Hash: config, LiveHash: live, Rejected: rejected}
		s.answers[address] = d
	}
}

func TestALiveChangeIsAppliedWhenThePodsSaySo(t *testing.T) {
	op, relay, s := newCollected(t)
	hash, old := relay.Status.ConfigHash, relay.Status.LiveConfigHash
	s.works(hash, old, "")
	wantCondition(t, relay, v1alpha1.ConditionConfigurationApplied, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	edit(t, relay, func(r *v1alpha1.MoQRelay) { r.Spec.Limits.Sessions = new(int32(9)) })
	wantCondition(t, relay, v1alpha1.ConditionConfigurationApplied, metav1.ConditionFalse, v1alpha1.ReasonLiveReloadPending)
	s.works(hash, old, "limits.sessions: not today")
	c := wantCondition(t, relay, v1alpha1.ConditionConfigurationApplied, metav1.ConditionFalse, v1alpha1.ReasonLiveReloadRejected)
	if !strings.Contains(c.Message, "limits.sessions: not today") {
		t.Errorf("the message %q lacks the pod's own words", c.Message)
	}
	wantEvent(t, relay, corev1.EventTypeWarning, v1alpha1.ReasonLiveReloadRejected)
	wantCondition(t, relay, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
	s.works(hash, relay.Status.LiveConfigHash, "")
	wantCondition(t, relay, v1alpha1.ConditionConfigurationApplied, metav1.ConditionTrue, v1alpha1.ReasonConverged)
	op.wantNoWrites(t, relay)
}
