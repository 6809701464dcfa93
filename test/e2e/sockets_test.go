//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

const (
	// little is the kernel's own default of both limits, asked is the relay's.
	little = 212992
	asked  = 4 << 20
)

// lowerNode lowers the node's limits, and puts back what was there.
func lowerNode(t *testing.T) {
	t.Helper()
	alone(t)
	before := readSysctls()
	t.Cleanup(func() {
		if err := before.restore(); err != nil {
			t.Errorf("put the node's limits back: %v", err)
		}
	})
	for _, path := range socketLimits {
		if err := os.WriteFile(path, []byte(strconv.Itoa(little)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantNode(t, func(limit int64) bool { return limit == little }, "lowered")
}

// alone keeps the tests apart that lower the machine's limits, those of package
// relay/preflight among them: each puts back what it has found.
func alone(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "moqrelay-node-limits.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// wantNode wants both of the node's limits to be right.
func wantNode(t *testing.T, right func(limit int64) bool, what string) {
	t.Helper()
	for path, text := range readSysctls() {
		limit, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || !right(limit) {
			t.Errorf("%s is %d (%v), want it %s", path, limit, err, what)
		}
	}
}

func TestARelayRaisesItsNodesLimitsAndGetsTheBuffersItAsksFor(t *testing.T) {
	s := newSpace(t)
	lowerNode(t)
	s.apply(small("raise", "  tls: {mode: SelfSigned}\n"))
	relay := s.ready("raise")
	wantNode(t, func(limit int64) bool { return limit >= asked }, "at least 4 MiB")
	if err := has(relay, v1alpha1.ConditionSocketBuffersReady, metav1.ConditionTrue, v1alpha1.ReasonGranted); err != nil {
		t.Error(err)
	}
	wantBuffers(t, s, relay, v1alpha1.SocketBuffersRaiseNode, asked)
}

func TestARelayInModeVerifyLeavesItsNodeUntouchedAndSaysWhatItLacks(t *testing.T) {
	s := newSpace(t)
	lowerNode(t)
	s.apply(small("verify", "  tls: {mode: SelfSigned}\n  socketBuffers: {mode: Verify}\n"))
	relay := s.ready("verify")
	pods := s.pods("verify")
	if len(pods) != 1 {
		t.Fatalf("%d pods, want 1", len(pods))
	}
	if err := has(relay, v1alpha1.ConditionSocketBuffersReady, metav1.ConditionFalse, v1alpha1.ReasonReceiveBelowRequested,
		"pod "+pods[0].Name, "node "+pods[0].Spec.NodeName, fmt.Sprintf("%d of %d bytes of receive buffer", little, asked),
		"net.core.rmem_max", "RaiseNode"); err != nil {
		t.Error(err)
	}
	wantBuffers(t, s, relay, v1alpha1.SocketBuffersVerify, little)
	wantNode(t, func(limit int64) bool { return limit == little }, "untouched")
	if got := relay.Status.SocketBuffers.NodesBelow; len(got) != 1 || got[0] != pods[0].Spec.NodeName {
		t.Errorf("status.socketBuffers.nodesBelow is %v, want %s", got, pods[0].Spec.NodeName)
	}
	if c := pods[0].Spec.InitContainers[0].SecurityContext; c.Privileged == nil || *c.Privileged {
		t.Errorf("the preflight container of mode Verify is privileged")
	}
}

// wantBuffers wants status and the relay's own reading of its socket to be granted.
func wantBuffers(t *testing.T, s space, relay *v1alpha1.MoQRelay, mode v1alpha1.SocketBuffersMode, granted int64) {
	t.Helper()
	b := relay.Status.SocketBuffers
	if b == nil || b.Receive.GrantedMin == nil || b.Send.GrantedMin == nil {
		t.Fatalf("status.socketBuffers lacks figures: %+v", b)
	}
	if b.Mode != mode || b.Receive.GrantedMin.Value() != granted || b.Send.GrantedMin.Value() != granted {
		t.Errorf("status.socketBuffers has mode %s, receive %v, send %v; want %s and %d", b.Mode, b.Receive.GrantedMin, b.Send.GrantedMin, mode, granted)
	}
	for _, pod := range s.pods(relay.Name) {
		if err := socketHas(t, pod, granted); err != nil {
			t.Error(err)
		}
	}
}

// socketHas compares with what the relay reads from its socket.
func socketHas(t *testing.T, pod corev1.Pod, granted int64) error {
	document, err := podStatus(t.Context(), pod)
	if err != nil {
		return err
	}
	b := document.SocketBuffers
	switch {
	case b == nil:
		return errors.New("/statusz has no socket buffers")
	case b.Receive.Granted != granted || b.Send.Granted != granted || b.Receive.Requested != asked || b.Send.Requested != asked:
		return fmt.Errorf("/statusz says %+v, want %d granted of %d in both directions", *b, granted, asked)
	}
	return nil
}
