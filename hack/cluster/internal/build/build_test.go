package build

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func newSources() fstest.MapFS {
	return fstest.MapFS{
		"go.mod":            {Data: []byte("module m\n")},
		"go.sum":            {Data: []byte("x h1:1\n")},
		"hyperkube/main.go": {Data: []byte("package main\n")},
		"pause/main.go":     {Data: []byte("package main\n")},
		"coredns/main.go":   {Data: []byte("package main\n")},
	}
}

func mustKey(t *testing.T, sources fstest.MapFS, toolchain string) string {
	t.Helper()
	key, err := Key(sources, toolchain)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTheKeyChangesWithEverySourceAndTheToolchain(t *testing.T) {
	first := mustKey(t, newSources(), "go1.26.8")
	if again := mustKey(t, newSources(), "go1.26.8"); again != first {
		t.Errorf("the same sources gave %s and %s", first, again)
	}
	if len(first) != 12 {
		t.Errorf("key %q has %d digits, want 12", first, len(first))
	}
	if other := mustKey(t, newSources(), "go1.26.9"); other == first {
		t.Error("another toolchain gave the same key")
	}
	for name := range newSources() {
		changed := newSources()
		changed[name] = &fstest.MapFile{Data: append(changed[name].Data, '\n')}
		if mustKey(t, changed, "go1.26.8") == first {
			t.Errorf("a change of %s gave the same key", name)
		}
	}
}

func TestTheVersionComesFromGoMod(t *testing.T) {
	c := &Cache{Sources: fstest.MapFS{"go.mod": {Data: []byte("module m\n\nrequire (\n\tk8s.io/kubernetes v1.37.2\n)\n")}}}
	version, err := c.Version()
	if err != nil || version != "1.37.2" {
		t.Fatalf("version %q, %v; want 1.37.2", version, err)
	}
	for _, want := range []string{"version.gitVersion=v1.37.2 ", "version.gitMajor=1 ", "version.gitMinor=37"} {
		if !strings.Contains(linkFlags(version), want) {
			t.Errorf("no %q in the linker's flags %q", want, linkFlags(version))
		}
	}
	c.Sources = newSources()
	if _, err := c.Version(); err == nil {
		t.Error("a go.mod without Kubernetes has a version")
	}
}

// newBuilt makes a folder as a finished build leaves it.
func newBuilt(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"hyperkube", "coredns", "pause.tar"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEveryProgramIsALinkToTheNewestBuild(t *testing.T) {
	c := &Cache{Dir: t.TempDir()}
	old := newBuilt(t, filepath.Join(c.Dir, "hyperkube", "old"))
	latest := newBuilt(t, filepath.Join(c.Dir, "hyperkube", "latest"))
	for _, dir := range []string{old, latest} {
		if err := c.link(dir); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string]string{
		"etcd": "hyperkube", "kube-apiserver": "hyperkube", "kubectl": "hyperkube", "kubelet": "hyperkube", "kube-proxy": "hyperkube",
		"kube-scheduler": "hyperkube", "kube-controller-manager": "hyperkube", "coredns": "coredns", "pause.tar": "pause.tar",
	} {
		to, err := os.Readlink(filepath.Join(c.Bin(), program))
		if want = "../hyperkube/latest/" + want; err != nil || to != want {
			t.Errorf("%s links to %q, %v; want %s", program, to, err, want)
		}
	}
	if !c.linked(latest) || c.linked(old) {
		t.Errorf("linked to latest: %v, to old: %v; want true and false", c.linked(latest), c.linked(old))
	}
}

func TestProgressCountsModulesAndPackagesAndKeepsErrors(t *testing.T) {
	p := newProgress(io.Discard, "hyperkube", time.Hour)
	said := p.follow(strings.NewReader("go: downloading k8s.io/api v0.37.2\n" +
		"internal/abi\nk8s.io/api/core/v1\n" +
		"# k8s.io/api/apps/v1\nx.go:3:1: undefined: y\n" +
		"go: m@v1: reading https://user:pw@mirror.example.test:8443/m/@v/v1.mod: 404 Not Found\n"))
	if p.modules != 1 || p.packages != 2 {
		t.Errorf("%d modules and %d packages, want 1 and 2", p.modules, p.packages)
	}
	const want = "# k8s.io/api/apps/v1\nx.go:3:1: undefined: y\n" +
		"go: m@v1: reading <module proxy>/m/@v/v1.mod: 404 Not Found"
	if said != want {
		t.Errorf("kept %q, want %q", said, want)
	}
	line := p.line(p.start.Add(61 * time.Second))
	if line != "hyperkube: 1m1s, 2 packages compiled, of about 2500 with an empty cache" {
		t.Errorf("progress %q", line)
	}
}

// readTar maps the names in a tar file to their bytes.
func readTar(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnImageArchiveNamesItsImageAndHoldsItsProgram(t *testing.T) {
	archive, err := imageArchive("moqrelay.test/pause:1", "/pause", []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	files := readTar(t, archive)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "moqrelay.test/pause:1" {
		t.Fatalf("manifest %+v, want one image moqrelay.test/pause:1", manifest)
	}
	layer := files[manifest[0].Layers[0]]
	if got := readTar(t, layer)["pause"]; string(got) != "program" {
		t.Errorf("the layer holds /pause with %q, want %q", got, "program")
	}
	config := string(files[manifest[0].Config])
	for _, want := range []string{`"Entrypoint":["/pause"]`, `"diff_ids":["sha256:` + digest(layer) + `"]`} {
		if !strings.Contains(config, want) {
			t.Errorf("no %s in the image's configuration %s", want, config)
		}
	}
}
