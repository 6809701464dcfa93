//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestADeletedRelayLeavesNothingBehind(t *testing.T) {
	s := newSpace(t)
	s.apply("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: somebody-elses\n")
	var before map[string]string
	poll(t, "what every namespace has", func(ctx context.Context) error {
		before = s.everything()
		if !slices.Contains(slices.Collect(maps.Keys(before)), "serviceaccount/default") || before["configmap/kube-root-ca.crt"] == "" {
			return fmt.Errorf("the namespace has %v", before)
		}
		return nil
	})
	s.apply(small("gone", "  tls: {mode: SelfSigned}\n"))
	s.ready("gone")
	if n := len(s.everything()) - len(before); n < 8 {
		t.Fatalf("a relay made %d objects, want at least its Deployment, ReplicaSet, pod, Service, two ConfigMaps, ServiceAccount and PodDisruptionBudget", n)
	}
	s.kubectl("delete", "moqrelay", "gone")
	poll(t, "a namespace as it was", func(context.Context) error {
		for name := range s.everything() {
			if before[name] == "" {
				return fmt.Errorf("%s is left", name)
			}
		}
		return nil
	})
}

// everything lists all objects of the namespace but events, with their versions.
func (s space) everything() map[string]string {
	s.t.Helper()
	kinds := strings.Fields(s.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return strings.HasPrefix(kind, "events") })
	out := s.kubectl("get", strings.Join(kinds, ","), "--ignore-not-found", "-o",
		`go-template={{range .items}}{{.kind}}/{{.metadata.name}} {{.metadata.resourceVersion}}{{"\n"}}{{end}}`)
	found := map[string]string{}
	for line := range strings.Lines(out) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found[strings.ToLower(name[:strings.Index(name, "/")])+name[strings.Index(name, "/"):]] = version
		}
	}
	return found
}

func TestARestartedOperatorWritesNothing(t *testing.T) {
	s := newSpace(t)
	s.tlsSecret("cert")
	s.apply(small("signed", "  tls: {mode: SelfSigned}\n"))
	s.apply(small("secret", "  tls: {secretName: cert}\n"))
	s.ready("signed")
	s.ready("secret")
	before := s.everything()

	old := operatorPods(t)
	if _, err := kubectl(t.Context(), "", "-n", operatorNamespace, "delete", "pods", "-l", "app.kubernetes.io/name=moq-relay-operator", "--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	leader := newLeader(t, old)
	poll(t, "a pass of the new operator over both relays", func(ctx context.Context) error {
		passes, err := reconciles(ctx, leader)
		if err == nil && passes < 2 {
			err = fmt.Errorf("%d passes so far", passes)
		}
		return err
	})

	after := s.everything()
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s had resourceVersion %s before the restart and has %s after it", name, version, after[name])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d objects before the restart, %d after it", len(before), len(after))
	}
}

// operatorPods are the operator's pods by name.
func operatorPods(t *testing.T) map[string]corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := admin.List(t.Context(), &list, client.InNamespace(operatorNamespace), client.MatchingLabels{"app.kubernetes.io/name": "moq-relay-operator"}); err != nil {
		t.Fatal(err)
	}
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		pods[p.Name] = p
	}
	return pods
}

// newLeader waits until a pod that is not one of the old ones holds the Lease.
func newLeader(t *testing.T, old map[string]corev1.Pod) corev1.Pod {
	t.Helper()
	var leader corev1.Pod
	poll(t, "another operator that leads", func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := admin.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: "moq-relay-operator.moqrelay.io"}, &lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil {
			return fmt.Errorf("nobody leads")
		}
		name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
		pod, exists := operatorPods(t)[name]
		if _, isOld := old[name]; isOld || !exists || !serves(&pod) {
			return fmt.Errorf("%q leads", *lease.Spec.HolderIdentity)
		}
		leader = pod
		return nil
	})
	return leader
}

// reconciles is how many passes an operator has made, by its own metrics.
func reconciles(ctx context.Context, pod corev1.Pod) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	passes := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, `controller_runtime_reconcile_total{controller="moqrelay"`) {
			continue
		}
		words := strings.Fields(line)
		n, err := strconv.ParseFloat(words[len(words)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", line, err)
		}
		passes += int(n)
	}
	return passes, nil
}
