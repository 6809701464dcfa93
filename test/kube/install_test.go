//go:build kube

package kube

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// newServer starts an API server of the test's own, with nothing of ours in it.
func newServer(t *testing.T) (client.Client, string) {
	t.Helper()
	env := &envtest.Environment{ControlPlaneStartTimeout: failsafe, ControlPlaneStopTimeout: failsafe}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return c, file
}

// command runs a program and returns its standard output.
func command(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	var out, diagnosis bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &diagnosis
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, diagnosis.Bytes())
	}
	return out.Bytes(), nil
}

// chart renders the Helm chart for a namespace.
func chart(t *testing.T, namespace string, values ...string) []byte {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "charts/moq-relay-operator"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "-C", filepath.Join(root, "hack/tools"), "-trimpath", "./manifests", "helm", dir, namespace}, values...)
	manifest, err := command(t.Context(), nil, "go", args...)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

// wantInstalled fails unless the CRD is served, and the operator's Deployment is
// in the namespace with an account that may do what it must and no more.
func wantInstalled(t *testing.T, c client.Client, config, namespace string) {
	t.Helper()
	relay := newRelay("default")
	eventually(t, "CRD served", func() error { return c.Create(t.Context(), relay.DeepCopy(), client.DryRunAll) })
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "moq-relay-operator"}, d); err != nil {
		t.Fatal(err)
	}
	if args := d.Spec.Template.Spec.Containers[0].Args; !slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "--relay-image=") }) {
		t.Errorf("the operator's arguments are %q, want a relay image among them", args)
	}
	account := "system:serviceaccount:" + namespace + ":" + d.Spec.Template.Spec.ServiceAccountName
	for question, want := range map[string]string{
		"patch deployments.apps -n media": "yes", "update moqrelays.moqrelay.io --subresource=status -n media": "yes", "create leases.coordination.k8s.io -n " + namespace: "yes",
		"get secrets -n media": "no", "create leases.coordination.k8s.io -n media": "no", "create pods --subresource=exec -n media": "no",
	} {
		args := append([]string{"--kubeconfig", config, "auth", "can-i", "--as", account}, strings.Fields(question)...)
		out, _ := exec.CommandContext(t.Context(), kubectl, args...).Output() // "no" is exit code 1
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("may the operator %s? %q, want %s", question, got, want)
		}
	}
}

func TestKustomizeAndTheChartInstallTheOperator(t *testing.T) {
	c, config := newServer(t)
	apply := []string{"--kubeconfig", config, "apply", "--server-side"}
	if _, err := command(t.Context(), nil, kubectl, append(apply, "-k", filepath.Join(root, "config/default"))...); err != nil {
		t.Fatal(err)
	}
	wantInstalled(t, c, config, "moq-relay-operator")

	// The chart comes into a namespace of the user's choice.
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "operators"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t.Context(), chart(t, "operators"), kubectl, append(apply, "--force-conflicts", "-n", "operators", "-f", "-")...); err != nil {
		t.Fatal(err)
	}
	wantInstalled(t, c, config, "operators")
}

func TestEverySampleIsAccepted(t *testing.T) {
	// The namespace of the sample that brings its own: a dry run does not make it.
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "moq-restricted"}}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/samples/moqrelay_*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found samples %v (%v), want some", files, err)
	}
	for _, file := range files {
		if _, err := command(t.Context(), nil, kubectl, "--kubeconfig", kubeconfig, "apply", "--server-side", "--dry-run=server", "-f", file); err != nil {
			t.Error(err)
		}
	}
}
