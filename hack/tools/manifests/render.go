// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize renders a folder as `kubectl kustomize` does.
func kustomize(dir string) ([]byte, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // as kubectl does: namespaces first, webhooks last
	objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", dir, err)
	}
	return objects.AsYaml()
}

// helm renders a chart as `helm template moq-relay-operator CHART -n NAMESPACE
// --set KEY=VALUE` does, values.schema.json included.
func helm(dir, namespace string, sets []string) ([]byte, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("load chart %s: %w", dir, err)
	}
	values := map[string]any{}
	for _, set := range sets {
		if err := strvals.ParseInto(set, values); err != nil {
			return nil, fmt.Errorf("value %q: %w", set, err)
		}
	}
	release := chartutil.ReleaseOptions{Name: "moq-relay-operator", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values of chart %s: %w", dir, err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, fmt.Errorf("render chart %s: %w", dir, err)
	}
	return join(files), nil
}

// join makes one manifest of the rendered files, in the order of their names;
// notes and files without an object are left out.
func join(files map[string]string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(files[name])
		if path.Ext(name) != ".yaml" || text == "" {
			continue
		}
		fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
	}
	return b.Bytes()
}
