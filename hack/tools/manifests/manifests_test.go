// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

const (
	root  = "../../.."
	chart = root + "/charts/moq-relay-operator"
)

func TestTheChartInstallsWhatKustomizeInstalls(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"check", root}, &out); err != nil {
		t.Fatal(err)
	}
	if want := "config/default and the chart hold the same 8 objects\n"; out.String() != want {
		t.Errorf("check says %q, want %q", out.String(), want)
	}
}

func TestADifferenceIsReportedWithItsPlace(t *testing.T) {
	a := map[string]any{"spec": map[string]any{"replicas": 2, "list": []any{"x", "y"}}}
	b := map[string]any{"spec": map[string]any{"replicas": 3, "list": []any{"x", "z"}}}
	err := compare(map[string]map[string]any{"Deployment ns/a": a, "Service ns/b": {}}, map[string]map[string]any{"Deployment ns/a": b})
	if err == nil {
		t.Fatal("no difference was found")
	}
	for _, want := range []string{
		"Deployment ns/a.spec.list[1] is y in config/default, z in the chart",
		"Deployment ns/a.spec.replicas is 2 in config/default, 3 in the chart",
		"the chart lacks Service ns/b",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the report lacks %q:\n%v", want, err)
		}
	}
}

func TestTheSamplesAreARunnableFolder(t *testing.T) {
	manifest, err := kustomize(root + "/config/samples")
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(manifest, []byte("kind: MoQRelay")); got != 5 {
		t.Errorf("the samples hold %d MoQRelays, want 5", got)
	}
}

func TestValuesReachTheObjects(t *testing.T) {
	for _, row := range []struct{ set, want, without string }{
		{"imageRegistry=example.com/mirror", "image: example.com/mirror/moq-relay-operator:v0.1.0", "ghcr.io"},
		{"imageTag=v9", "--relay-image=ghcr.io/moqrelay/moq-relay:v9", "v0.1.0"},
		{"images.manager=a/b:1", "image: a/b:1", "ghcr.io/moqrelay/moq-relay-operator"},
		{"images.relay=a/b:1", "--relay-image=a/b:1", "ghcr.io/moqrelay/moq-relay:"},
		{"imagePullPolicy=Never", "imagePullPolicy: Never", "imagePullPolicy: IfNotPresent"},
		{"imagePullSecrets[0].name=pull", "- name: pull", ""},
		{"replicas=1", "replicas: 1\n", "replicas: 2\n"},
		{"hostAccess=all", "--host-access=all", ""},
		{"extraArgs[0]=--log-level=debug", "- --log-level=debug", ""},
		{"resources.limits.memory=1Gi", "memory: 1Gi", "memory: 256Mi"},
		{"nodeSelector.disk=ssd", "disk: ssd", ""},
		{"tolerations[0].operator=Exists", "- operator: Exists", ""},
		{"crds.enabled=false", "kind: Deployment", "kind: CustomResourceDefinition"},
	} {
		manifest, err := helm(chart, "elsewhere", []string{row.set})
		if err != nil {
			t.Errorf("%s: %v", row.set, err)
			continue
		}
		// Descriptions of the CRD hold many words.
		objects, _, _ := strings.Cut(string(manifest), "# Source: moq-relay-operator/templates/crd.yaml")
		_, rest, _ := strings.Cut(string(manifest), "# Source: moq-relay-operator/templates/deployment.yaml")
		if row.set == "crds.enabled=false" {
			objects = string(manifest)
		}
		objects += rest
		if !strings.Contains(objects, row.want) {
			t.Errorf("%s: %q is not in the manifest", row.set, row.want)
		}
		if row.without != "" && strings.Contains(objects, row.without) {
			t.Errorf("%s: %q is still in the manifest", row.set, row.without)
		}
		if strings.Contains(objects, "namespace: moq-relay-operator\n") {
			t.Errorf("%s: something is not in the release's namespace", row.set)
		}
	}
}

func TestMistakesInValuesAreRefusedByName(t *testing.T) {
	for set, want := range map[string]string{
		"replicas=0":          "at '/replicas': minimum",
		"hostAccess=Some":     "at '/hostAccess': value must be one of",
		"hostAcess=all":       "additional properties 'hostAcess' not allowed",
		"crds.enabled=maybe":  "at '/crds/enabled': got string, want boolean",
		"extraArgs[0]=debug":  "at '/extraArgs/0': 'debug' does not match pattern",
		"images.operator=a/b": "additional properties 'operator' not allowed",
	} {
		if _, err := helm(chart, "elsewhere", []string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", set, err, want)
		}
	}
}

func TestWhatIsNoCommandIsAnsweredWithTheUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"helm"}, {"kustomize"}, {"install", "x"}} {
		if err := run(args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), usage) {
			t.Errorf("%q: got %v, want the usage", args, err)
		}
	}
}
