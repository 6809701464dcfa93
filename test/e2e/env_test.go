//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/status"
)

// operatorNamespace is where the operator is installed.
const operatorNamespace = "moq-relay-operator"

// What all tests share; set by connect.
var (
	scheme     = runtime.NewScheme()
	admin      client.WithWatch
	kubeconfig string
	kubectlAt  string
	images     struct{ manager, relay string }
)

// connect finds the cluster that the guard has brought up.
func connect() error {
	log.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	bin, err := exec.Command(clusterProgram(), "bin").Output()
	if err != nil {
		return fmt.Errorf("cluster bin: %w", err)
	}
	kubectlAt = filepath.Join(strings.TrimSpace(string(bin)), "kubectl")
	at, err := exec.Command(clusterProgram(), "kubeconfig").Output()
	if err != nil {
		return fmt.Errorf("cluster kubeconfig: %w", err)
	}
	kubeconfig = strings.TrimSpace(string(at))
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 200, 400
	if admin, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return readImages()
}

func readImages() error {
	names, err := os.ReadFile(inRoot("dist/images/names"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(names)) {
		switch key, name, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "manager":
			images.manager = name
		case "relay":
			images.relay = name
		}
	}
	if images.manager == "" || images.relay == "" {
		return fmt.Errorf("dist/images/names lacks an image: %s", names)
	}
	return nil
}

// installByChart installs CRD and operator as the chart renders them, and waits
// until the operator runs.
func installByChart(ctx context.Context) error {
	namespace := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + operatorNamespace + "\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
	chart, err := exec.CommandContext(ctx, inRoot("bin/manifests"), "helm", inRoot("charts/moq-relay-operator"), operatorNamespace,
		"images.manager="+images.manager, "images.relay="+images.relay).Output()
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	for _, manifest := range []string{namespace, string(chart)} {
		if _, err := kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
			return err
		}
	}
	if _, err := kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/moqrelays.moqrelay.io"); err != nil {
		return err
	}
	_, err = kubectl(ctx, "", "-n", operatorNamespace, "rollout", "status", "--timeout=180s", "deployment/moq-relay-operator")
	return err
}

// kubectl runs the cluster's own kubectl and returns what it prints.
func kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, kubectlAt, append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, fault.String())
	}
	return out.String(), nil
}

// A space is a namespace of one test.
type space struct {
	name string
	t    *testing.T
}

// newSpace makes a namespace that may touch its nodes, as the demo's. It is removed
// when the test ends; when the test has failed, all that can explain it is logged first.
func newSpace(t *testing.T) space {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "media-", Labels: map[string]string{v1alpha1.LabelHostAccess: v1alpha1.HostAccessAllowed},
	}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s := space{name: ns.Name, t: t}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			s.explain(ctx)
		}
		if err := admin.Delete(ctx, ns); err != nil {
			t.Errorf("remove the namespace: %v", err)
		}
	})
	return s
}

// explain logs what the cluster has to say.
func (s space) explain(ctx context.Context) {
	for _, args := range [][]string{
		{"-n", s.name, "get", "moqrelays,deployments,replicasets,pods,services,configmaps", "-o", "wide"},
		{"-n", s.name, "get", "moqrelays", "-o", "yaml"},
		{"-n", s.name, "describe", "pods"},
		{"-n", s.name, "logs", "--tail=40", "--prefix", "--all-containers", "-l", "app.kubernetes.io/name=moq-relay"},
		{"-n", s.name, "get", "events", "--sort-by=.lastTimestamp"},
		{"-n", operatorNamespace, "logs", "--tail=60", "--prefix", "-l", "app.kubernetes.io/name=moq-relay-operator"},
	} {
		out, err := kubectl(ctx, "", args...)
		s.t.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// kubectl runs kubectl in the namespace; a failure ends the test.
func (s space) kubectl(args ...string) string {
	s.t.Helper()
	out, err := kubectl(s.t.Context(), "", append([]string{"-n", s.name}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// refused runs kubectl and returns the error, which it wants.
func (s space) refused(stdin string, args ...string) string {
	s.t.Helper()
	out, err := kubectl(s.t.Context(), stdin, append([]string{"-n", s.name}, args...)...)
	if err == nil {
		s.t.Fatalf("kubectl %s was not refused: %s", strings.Join(args, " "), out)
	}
	return err.Error()
}

// apply applies a manifest as a user does.
func (s space) apply(manifest string) {
	s.t.Helper()
	if _, err := kubectl(s.t.Context(), manifest, "-n", s.name, "apply", "--server-side", "-f", "-"); err != nil {
		s.t.Fatal(err)
	}
}

// small is a MoQRelay that leaves room for others on the node, with more of a spec.
func small(name, spec string) string {
	return fmt.Sprintf(`apiVersion: moqrelay.io/v1alpha1
kind: MoQRelay
metadata:
  name: %s
spec:
  auth: {mode: None}
  service: {type: NodePort}
  drain: {timeoutSeconds: 5}
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}
%s`, name, spec)
}

// relay reads a MoQRelay.
func (s space) relay(name string) *v1alpha1.MoQRelay {
	s.t.Helper()
	relay := &v1alpha1.MoQRelay{}
	if err := admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.name, Name: name}, relay); err != nil {
		s.t.Fatal(err)
	}
	return relay
}

// pods are those of a relay that are not on their way out.
func (s space) pods(relay string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := admin.List(s.t.Context(), &list, client.InNamespace(s.name), client.MatchingLabels{"app.kubernetes.io/instance": relay}); err != nil {
		s.t.Fatal(err)
	}
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// podStatus reads a pod's status page at the pod's own address.
func podStatus(ctx context.Context, pod corev1.Pod) (status.Document, error) {
	var document status.Document
	url := "http://" + net.JoinHostPort(pod.Status.PodIP, "9090") + "/statusz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return document, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return document, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return document, fmt.Errorf("%s: %s", url, response.Status)
	}
	return document, json.NewDecoder(response.Body).Decode(&document)
}
