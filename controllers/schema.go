package controllers

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/moqrelay/operator/api/v1alpha1"
)

const (
	// crdName is the name of our CustomResourceDefinition.
	crdName = "moqrelays." + v1alpha1.Group
	// schemaRecheck is how long a look at the CRD is good for.
	schemaRecheck = time.Minute
	// namedFields is how many of the fields that a CRD lacks are told.
	namedFields = 5
)

// A SchemaCheck is a probe that fails while the cluster's CRD lacks fields that this
// operator knows: the API server drops them from what users write and from the
// status, without a word. A CRD that has more is in order, so that an operator
// can be rolled back. Its fields are set before its first use.
type SchemaCheck struct {
	// Live reads from the API server itself.
	Live client.Reader
	// Events takes a Warning about the CRD each time that it is found to lack
	// something; nil drops it.
	Events EventSink

	mu     sync.Mutex
	looked time.Time // zero: never with success
	result error
}

// Check is a readiness check. It looks at the CRD at most once a minute; while it
// cannot be read, the last look counts.
func (c *SchemaCheck) Check(req *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.looked.IsZero() && time.Since(c.looked) < schemaRecheck {
		return c.result
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.Live.Get(req.Context(), client.ObjectKey{Name: crdName}, crd); err != nil {
		if c.looked.IsZero() {
			return fmt.Errorf("read CustomResourceDefinition %s: %w", crdName, err)
		}
		return c.result
	}
	c.looked, c.result = time.Now(), skew(crd)
	if c.result != nil && c.Events != nil {
		c.Events.Eventf(crd, nil, corev1.EventTypeWarning, v1alpha1.EventSchemaSkew, "Check", "%s", clip(c.result.Error(), maxNote))
	}
	return c.result
}

// skew says which fields the CRD lacks, nil if it has all of them.
func skew(crd *unstructured.Unstructured) error {
	has := map[string]bool{}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["name"] != v1alpha1.GroupVersion.Version {
			continue
		}
		root, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		properties(root, "", has)
	}
	lacks := slices.DeleteFunc(append(fieldsOf(reflect.TypeFor[v1alpha1.MoQRelaySpec](), "spec"), fieldsOf(reflect.TypeFor[v1alpha1.MoQRelayStatus](), "status")...),
		func(path string) bool { return has[path] })
	if len(lacks) == 0 {
		return nil
	}
	more := ""
	if len(lacks) > namedFields {
		more = fmt.Sprintf(" and %d more", len(lacks)-namedFields)
	}
	return fmt.Errorf("CustomResourceDefinition %s is older than this operator and lacks %s%s: apply the CRD of this release",
		crdName, strings.Join(lacks[:min(len(lacks), namedFields)], ", "), more)
}

// properties notes the paths of all properties of a schema. Items of lists have
// their list's path.
func properties(node map[string]any, path string, has map[string]bool) {
	if items, ok := node["items"].(map[string]any); ok {
		properties(items, path, has)
	}
	children, _ := node["properties"].(map[string]any)
	for name, child := range children {
		below := strings.TrimPrefix(path+"."+name, ".")
		has[below] = true
		if child, ok := child.(map[string]any); ok {
			properties(child, below, has)
		}
	}
}

// fieldsOf lists the paths of the fields of one of our types, sorted by position.
func fieldsOf(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[v1alpha1.MoQRelaySpec]().PkgPath() {
		return nil
	}
	var paths []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		below := path + "." + name
		paths = append(append(paths, below), fieldsOf(field.Type, below)...)
	}
	return paths
}
