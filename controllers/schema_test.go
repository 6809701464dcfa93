package controllers

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// generatedCRD is the CRD of this release.
func generatedCRD(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile("../config/crd/bases/moqrelay.io_moqrelays.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
		t.Fatal(err)
	}
	return crd
}

// without removes properties: "spec.properties.cluster".
func without(t *testing.T, crd *unstructured.Unstructured, paths ...string) *unstructured.Unstructured {
	t.Helper()
	root := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, path := range paths {
		fields := append([]string{"properties"}, strings.Split(path, ".")...)
		if _, found, err := unstructured.NestedFieldNoCopy(root, fields...); !found || err != nil {
			t.Fatalf("the CRD has no %s (%v)", path, err)
		}
		unstructured.RemoveNestedField(root, fields...)
	}
	return crd
}

func TestTheCRDOfThisReleaseLacksNothing(t *testing.T) {
	if err := skew(generatedCRD(t)); err != nil {
		t.Error(err)
	}
}

func TestAnOlderCRDIsToldByTheFieldsThatItLacks(t *testing.T) {
	for _, row := range []struct {
		lacks []string
		want  string
	}{
		{[]string{"spec.properties.log.properties.format"}, "lacks spec.log.format: apply the CRD"},
		{[]string{"status.properties.peers.items.properties.connected"}, "lacks status.peers.connected: apply the CRD"},
		{[]string{"spec.properties.cluster"}, "lacks spec.cluster, spec.cluster.mode, spec.cluster.upstreams, spec.cluster.upstreams.url, spec.cluster.upstreams.cost: apply the CRD"},
		{[]string{"spec.properties.cluster", "spec.properties.log"}, "and 3 more: apply the CRD"},
	} {
		if err := skew(without(t, generatedCRD(t), row.lacks...)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("without %q: got %v, want %q", row.lacks, err, row.want)
		}
	}
	if err := skew(&unstructured.Unstructured{Object: map[string]any{}}); err == nil {
		t.Error("an object without any schema is in order")
	}
}

func TestANewerCRDIsInOrder(t *testing.T) {
	crd := generatedCRD(t)
	root := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	if err := unstructured.SetNestedField(root, map[string]any{"type": "string"}, "schema", "openAPIV3Schema", "properties", "spec", "properties", "news"); err != nil {
		t.Fatal(err)
	}
	if err := skew(crd); err != nil {
		t.Errorf("an operator that is rolled back would not be ready: %v", err)
	}
}

// A shelf holds the CRD; it counts looks and warnings.
type shelf struct {
	client.Reader
	crd      *unstructured.Unstructured // nil: it cannot be read
	looks    int
	warnings []string
}

func (s *shelf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s.looks++
	if s.crd == nil || key.Name != "moqrelays.moqrelay.io" {
		return errors.New("the API server is away")
	}
	s.crd.DeepCopyInto(obj.(*unstructured.Unstructured))
	return nil
}

func (s *shelf) Eventf(_, _ runtime.Object, kind, reason, _, _ string, _ ...any) {
	s.warnings = append(s.warnings, kind+" "+reason)
}

func TestTheCRDIsLookedAtOnceAMinuteAndAnUpgradeIsSeen(t *testing.T) {
	old, fresh := without(t, generatedCRD(t), "spec.properties.log"), generatedCRD(t)
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		check := &SchemaCheck{Live: s, Events: s}
		for _, step := range []struct {
			name  string
			crd   *unstructured.Unstructured
			wait  time.Duration
			ready bool
			looks int // in all
			warn  int // in all
		}{
			{"it cannot be read at first", nil, 0, false, 1, 0},
			{"it is old", old, 0, false, 2, 1},
			{"within the minute nobody looks", fresh, 59 * time.Second, false, 2, 1},
			{"and is told again", old, time.Second, false, 3, 2},
			{"it is upgraded", fresh, time.Minute, true, 4, 2},
			{"it cannot be read: the last look counts", nil, time.Minute, true, 5, 2},
			{"it is old again", old, time.Second, false, 6, 3},
		} {
			<-time.After(step.wait)
			s.crd = step.crd
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://operator/readyz", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := check.Check(req); (err == nil) != step.ready || s.looks != step.looks || len(s.warnings) != step.warn {
				t.Errorf("%s: %v after %d looks and %d warnings; want ready %v, %d and %d", step.name, err, s.looks, len(s.warnings), step.ready, step.looks, step.warn)
			}
		}
		if len(s.warnings) > 0 && s.warnings[0] != "Warning "+v1alpha1.EventSchemaSkew {
			t.Errorf("the warning is %q", s.warnings[0])
		}
	})
}
