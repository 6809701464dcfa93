// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config_test checks the manifests of this folder.
package config_test

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// read parses one document of a file strictly.
func read(t *testing.T, file string, document int, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	docs := bytes.Split(bytes.TrimPrefix(raw, []byte("---\n")), []byte("\n---\n"))
	if err := yaml.UnmarshalStrict(docs[document], into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func manager(t *testing.T) *appsv1.Deployment {
	t.Helper()
	deployment := &appsv1.Deployment{}
	read(t, "manager/deployment.yaml", 0, deployment)
	return deployment
}

func TestTheOperatorsPodPassesTheRestrictedLevel(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	template := manager(t).Spec.Template
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			t.Errorf("the restricted level forbids %s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
}

func TestTheOperatorMayNeitherReadSecretsNorTouchNodesNorGrantRights(t *testing.T) {
	var cluster rbacv1.ClusterRole
	var own rbacv1.Role
	read(t, "rbac/role.yaml", 0, &cluster)
	read(t, "rbac/role.yaml", 1, &own)
	forbidden := []string{"*", "secrets", "nodes", "nodes/proxy", "pods/exec", "pods/portforward", "pods/attach", "serviceaccounts/token"}
	for _, rule := range slices.Concat(cluster.Rules, own.Rules) {
		for _, resource := range rule.Resources {
			if slices.Contains(forbidden, resource) {
				t.Errorf("%s of %s is granted", rule.Verbs, resource)
			}
		}
		if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, rbacv1.GroupName) {
			t.Errorf("%+v grants too much", rule)
		}
	}
	if own.Namespace != "moq-relay-operator" || len(own.Rules) != 1 || !slices.Equal(own.Rules[0].Resources, []string{"leases"}) {
		t.Errorf("in its own namespace the operator may %+v, want leases alone", own.Rules)
	}
}

func TestEveryPublishedImageIsOfOneRegistryAndOneTag(t *testing.T) {
	container := manager(t).Spec.Template.Spec.Containers[0]
	tag, ok := strings.CutPrefix(container.Image, "ghcr.io/moqrelay/moq-relay-operator:")
	if !ok {
		t.Fatalf("the operator's image is %s", container.Image)
	}
	if want := "--relay-image=ghcr.io/moqrelay/moq-relay:" + tag; !slices.Contains(container.Args, want) {
		t.Errorf("the operator's arguments %q lack %q", container.Args, want)
	}
	err := fs.WalkDir(os.DirFS("samples"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile("samples/" + path)
		if bytes.Contains(raw, []byte("image:")) {
			t.Errorf("%s names an image, which would miss the next release", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
