//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

func TestKustomizeInstallsWhatTheChartInstalls(t *testing.T) {
	state := func() string {
		t.Helper()
		out, err := kubectl(t.Context(), "", "get",
			"deployment.apps,serviceaccount,role,rolebinding,poddisruptionbudget,clusterrole,clusterrolebinding,crd",
			"-n", operatorNamespace, "-l", "app.kubernetes.io/part-of=moq-relay-operator", "--show-managed-fields=false", "-o",
			`go-template={{range .items}}{{.kind}}/{{.metadata.name}} {{.metadata.uid}} generation {{.metadata.generation}} {{.metadata.labels}} {{.rules}} {{.subjects}}{{"\n"}}{{end}}`)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := state()
	if n := strings.Count(before, "\n"); n != 8 {
		t.Fatalf("the chart installed %d objects beside the namespace, want 8:\n%s", n, before)
	}
	manifest, err := exec.CommandContext(t.Context(), inRoot("bin/manifests"), "kustomize", inRoot("config/default")).Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := strings.NewReplacer("ghcr.io/moqrelay/moq-relay-operator:v0.1.0", images.manager, "ghcr.io/moqrelay/moq-relay:v0.1.0", images.relay).Replace(string(manifest))
	if strings.Contains(ours, "ghcr.io") {
		t.Fatal("config/default names images that this test does not replace")
	}
	if _, err := kubectl(t.Context(), ours, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if after := state(); after != before {
		t.Errorf("kustomize changed what the chart has installed\nchart:\n%s\nkustomize:\n%s", before, after)
	}
}

func TestTheOperatorMayReadNoSecretAndNoNode(t *testing.T) {
	t.Parallel()
	user := "--as=system:serviceaccount:" + operatorNamespace + ":moq-relay-operator"
	for _, row := range []struct {
		may  bool
		args []string
	}{
		{true, []string{"list", "deployments.apps", "--all-namespaces"}},
		{true, []string{"patch", "services", "--all-namespaces"}},
		{false, []string{"get", "secrets", "--all-namespaces"}},
		{false, []string{"list", "secrets", "-n", operatorNamespace}},
		{false, []string{"get", "nodes"}},
		{false, []string{"create", "pods/exec", "--all-namespaces"}},
		{false, []string{"create", "clusterroles.rbac.authorization.k8s.io"}},
	} {
		answer, _ := kubectl(t.Context(), "", append([]string{"auth", "can-i", user}, row.args...)...)
		if want := map[bool]string{true: "yes", false: "no"}[row.may]; strings.TrimSpace(answer) != want {
			t.Errorf("may the operator %v: %q, want %s", row.args, answer, want)
		}
	}
}
