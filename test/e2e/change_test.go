//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reload is how long a live change may take to be in force: the kubelet looks at
// mounted ConfigMaps about once a minute.
const reload = 90 * time.Second

func TestAChangedWindowRollsThePodsNewOnesFirst(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.tlsSecret("cert")
	s.apply(small("rolls", "  replicas: 2\n  tls: {secretName: cert}\n"))
	before := s.ready("rolls")
	old := podNames(s.pods("rolls"))

	least := s.watchReady("rolls")
	s.kubectl("patch", "moqrelay", "rolls", "--type=merge", "-p", `{"spec":{"windows":{"stream":"512Ki"}}}`)
	after := s.ready("rolls")

	if n := least(); n < 2 {
		t.Errorf("at one time %d pods were ready during the rollout, want never fewer than 2", n)
	}
	if fresh := podNames(s.pods("rolls")); len(fresh) != 2 || slices.ContainsFunc(fresh, func(n string) bool { return slices.Contains(old, n) }) {
		t.Errorf("the pods are %v, want two that are not among %v", fresh, old)
	}
	if before.Status.ConfigHash == after.Status.ConfigHash {
		t.Errorf("status.configHash is %s before and after the change", after.Status.ConfigHash)
	}
	if before.Status.LiveConfigHash != after.Status.LiveConfigHash {
		t.Errorf("status.liveConfigHash changed with a window")
	}
	name := "rolls-cfg-" + after.Status.ConfigHash[:8]
	if config := s.kubectl("get", "configmap", name, "-o", "jsonpath={.immutable}{.data}"); !strings.HasPrefix(config, "true") || !strings.Contains(config, "512Ki") && !strings.Contains(config, "524288") {
		t.Errorf("ConfigMap %s is not immutable with the new window: %s", name, config)
	}
	for _, pod := range s.pods("rolls") {
		if d, err := podStatus(t.Context(), pod); err != nil || d.Config.Hash != after.Status.ConfigHash {
			t.Errorf("pod %s runs config %s (%v), want %s", pod.Name, d.Config.Hash, err, after.Status.ConfigHash)
		}
	}
}

func TestLiveChangesAreInForceWithin90SecondsWithoutARestart(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.apply(small("live", "  tls: {mode: SelfSigned}\n  cache: {maxBytes: 64Mi}\n"))
	before := s.ready("live")
	pod := onlyPod(t, s, "live")
	if d, err := podStatus(t.Context(), pod); err != nil || d.Cache.Capacity != 64<<20 {
		t.Fatalf("the cache holds %d bytes (%v), want 64 MiB", d.Cache.Capacity, err)
	}

	changed := time.Now()
	s.kubectl("patch", "moqrelay", "live", "--type=merge", "-p", `{"spec":{"log":{"level":"debug"},"cache":{"maxBytes":"32Mi"}}}`)
	after := s.ready("live")
	if before.Status.LiveConfigHash == after.Status.LiveConfigHash || before.Status.ConfigHash != after.Status.ConfigHash {
		t.Errorf("hashes: config %s to %s, live %s to %s; want the second alone to change",
			before.Status.ConfigHash, after.Status.ConfigHash, before.Status.LiveConfigHash, after.Status.LiveConfigHash)
	}
	poll(t, "the new live configuration in the relay", func(ctx context.Context) error {
		d, err := podStatus(ctx, pod)
		switch {
		case err != nil:
			return err
		case d.Config.LiveHash != after.Status.LiveConfigHash:
			return fmt.Errorf("/statusz reports liveHash %s, want %s", d.Config.LiveHash, after.Status.LiveConfigHash)
		case d.Cache.Capacity != 32<<20 || d.Config.Rejected != "" || len(d.Config.NeedsRestart) > 0:
			return fmt.Errorf("/statusz reports a cache of %d bytes and %+v", d.Cache.Capacity, d.Config)
		}
		return nil
	})
	took := time.Since(changed)
	t.Logf("in force %.1f s after the change", took.Seconds())
	if took > reload {
		t.Errorf("in force after %v, want within %v", took, reload)
	}
	now := onlyPod(t, s, "live")
	if now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod is %s with %d restarts, want %s with none", now.Name, now.Status.ContainerStatuses[0].RestartCount, pod.Name)
	}
}

func onlyPod(t *testing.T, s space, relay string) corev1.Pod {
	t.Helper()
	pods := s.pods(relay)
	if len(pods) != 1 {
		t.Fatalf("%d pods, want 1", len(pods))
	}
	return pods[0]
}

func podNames(pods []corev1.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// watchReady follows the relay's pods. What it returns ends that and says how few
// of them were ready at one time.
func (s space) watchReady(relay string) (least func() int) {
	s.t.Helper()
	var list corev1.PodList
	ours := []client.ListOption{client.InNamespace(s.name), client.MatchingLabels{"app.kubernetes.io/instance": relay}}
	if err := admin.List(s.t.Context(), &list, ours...); err != nil {
		s.t.Fatal(err)
	}
	ready := map[string]bool{}
	for i := range list.Items {
		ready[list.Items[i].Name] = serves(&list.Items[i])
	}
	w, err := admin.Watch(s.t.Context(), &corev1.PodList{}, append(ours, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})...)
	if err != nil {
		s.t.Fatal(err)
	}
	fewest, done := count(ready), make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				ready[pod.Name] = event.Type != apiwatch.Deleted && serves(pod)
				fewest = min(fewest, count(ready))
			}
		}
	}()
	return func() int {
		w.Stop()
		<-done
		return fewest
	}
}

// serves says that a pod is ready and was not told to stop.
func serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func count(ready map[string]bool) int {
	n := 0
	for is := range maps.Values(ready) {
		if is {
			n++
		}
	}
	return n
}
