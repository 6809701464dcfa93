// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/api/v1alpha1/apitest"
	"github.com/moqrelay/operator/controllers/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	crdFile   = "../../config/crd/bases/moqrelay.io_moqrelays.yaml"
	sampleDir = "../../config/samples"
)

// options are those of an operator in a release, for a namespace with or without
// the label that allows host access.
func options(hostAccess bool) render.Options {
	return render.Options{RelayImage: "ghcr.io/moqrelay/moq-relay:v0.1.0", HostAccess: hostAccess, MaxNodeBuffer: 64 << 20, OperatorNamespace: "moq-relay-operator"}
}

// sample is a file of config/samples rendered for a namespace.
type sample struct {
	name       string // of the golden file
	hostAccess bool
	relay      *v1alpha1.MoQRelay
}

// samples admits every file of config/samples as the API server would, once for
// a namespace with host access and once without.
func samples(t *testing.T) []sample {
	t.Helper()
	crd, err := apitest.Load(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(sampleDir + "/moqrelay_*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found samples %v (%v), want at least 3", files, err)
	}
	var list []sample
	for _, file := range files {
		relay, err := crd.Create(t.Context(), moqrelayOf(t, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if relay.Namespace == "" {
			relay.Namespace = "default"
		}
		relay.UID = "00000000-0000-4000-8000-000000000001"
		base := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "moqrelay_"), ".yaml")
		list = append(list, sample{base + "-no-host-access", false, relay}, sample{base + "-host-access", true, relay})
	}
	return list
}

// moqrelayOf returns the MoQRelay among the documents of a file.
func moqrelayOf(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		if bytes.Contains(doc, []byte("kind: MoQRelay")) {
			return doc
		}
	}
	t.Fatalf("%s has no MoQRelay", file)
	return nil
}

func mustRender(t *testing.T, relay *v1alpha1.MoQRelay, opts render.Options) *render.Objects {
	t.Helper()
	objects, err := render.Render(relay, opts)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// manifest writes objects in the order in which they are applied.
func manifest(t *testing.T, objects *render.Objects) []byte {
	t.Helper()
	intents, err := objects.Intents()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, intent := range intents {
		doc, err := yaml.Marshal(intent.Object)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		b.Write(doc)
	}
	return b.Bytes()
}

func TestEverySampleRendersItsGoldenObjects(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			got := manifest(t, mustRender(t, s.relay, options(s.hostAccess)))
			file := filepath.Join("testdata", s.name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v (go test -update writes it)", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from what is rendered now (go test -update, then read the difference); now:\n%s", file, got)
			}
		})
	}
}

func TestRenderingTwiceGivesEqualBytes(t *testing.T) {
	for _, s := range samples(t) {
		first := manifest(t, mustRender(t, s.relay.DeepCopy(), options(s.hostAccess)))
		second := manifest(t, mustRender(t, s.relay, options(s.hostAccess)))
		if !bytes.Equal(first, second) {
			t.Errorf("%s: two renderings differ", s.name)
		}
	}
}

func TestRenderingLeavesTheMoQRelayAsItWas(t *testing.T) {
	for _, s := range samples(t) {
		before, _ := yaml.Marshal(s.relay)
		objects := mustRender(t, s.relay, options(s.hostAccess))
		objects.Deployment.Spec.Template.Labels["x"] = "y"
		objects.Deployment.Labels["x"] = "y"
		after, _ := yaml.Marshal(s.relay)
		if !bytes.Equal(before, after) {
			t.Errorf("%s: rendering changed its argument:\n%s\nwas:\n%s", s.name, after, before)
		}
	}
}
