// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"
)

// namespace is where config/default installs.
const namespace = "moq-relay-operator"

// check fails unless config/default and the chart hold the same objects. The
// namespace itself is not compared: helm makes it, on request, without labels.
func check(root string, out io.Writer) error {
	ours, err := objects(kustomize(filepath.Join(root, "config/default")))
	if err != nil {
		return err
	}
	charts, err := objects(helm(filepath.Join(root, "charts/moq-relay-operator"), namespace, nil))
	if err != nil {
		return err
	}
	delete(ours, "Namespace /"+namespace)
	if err := compare(ours, charts); err != nil {
		return err
	}
	fmt.Fprintf(out, "config/default and the chart hold the same %d objects\n", len(ours))
	return nil
}

// objects reads a manifest into objects by kind, namespace and name, without what
// may differ between the two ways of installing.
func objects(manifest []byte, err error) (map[string]map[string]any, error) {
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]any{}
	for doc := range bytes.SplitSeq(append([]byte("\n"), manifest...), []byte("\n---\n")) {
		var object map[string]any
		if err := yaml.Unmarshal(doc, &object); err != nil {
			return nil, fmt.Errorf("parse: %w\n%s", err, doc)
		}
		if object != nil {
			found[identify(object)] = normal(object)
		}
	}
	return found, nil
}

func identify(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	ns, _ := metadata["namespace"].(string)
	return fmt.Sprintf("%v %s/%v", object["kind"], ns, metadata["name"])
}

// normal drops the annotation that only helm knows.
func normal(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "helm.sh/resource-policy")
	}
	return object
}

func compare(ours, charts map[string]map[string]any) error {
	var faults []error
	for _, id := range slices.Sorted(maps.Keys(ours)) {
		switch {
		case charts[id] == nil:
			faults = append(faults, fmt.Errorf("the chart lacks %s", id))
		default:
			faults = append(faults, differ(id, ours[id], charts[id])...)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(charts)) {
		if ours[id] == nil {
			faults = append(faults, fmt.Errorf("config/default lacks %s", id))
		}
	}
	return errors.Join(faults...)
}

// differ names every place at which two values are not equal.
func differ(place string, a, b any) []error {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return differMaps(place, a, b)
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			var faults []error
			for i := range a {
				faults = append(faults, differ(fmt.Sprintf("%s[%d]", place, i), a[i], b[i])...)
			}
			return faults
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []error{fmt.Errorf("%s is %v in config/default, %v in the chart", place, a, b)}
}

func differMaps(place string, a, b map[string]any) []error {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		faults = append(faults, differ(place+"."+key, a[key], b[key])...)
	}
	return faults
}
