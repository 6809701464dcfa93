package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/moqrelay/operator/"

// rule says what one package may import: ours (below the module) and beyond the
// standard library. A name that ends in "/..." allows everything below it.
type rule struct{ ours, others []string }

const (
	quicGo       = "github.com/quic-go/quic-go/..."
	webTransport = "github.com/quic-go/webtransport-go/..."
	xsys         = "golang.org/x/sys/..."
	kubernetes   = "k8s.io/..."
	controller   = "sigs.k8s.io/controller-runtime/..."
	yaml         = "sigs.k8s.io/yaml"
	cobra        = "github.com/spf13/cobra"
	pflag        = "github.com/spf13/pflag"
)

// rules is the whole table: a package without a row fails.
var rules = map[string]rule{
	"relay/model":     {},
	"relay/wire":      {},
	"relay/wire/lite": {ours: []string{"relay/wire"}},
	"relay/transport": {},
	"relay/transport/quic": {
		ours:   []string{"relay/transport"},
		others: []string{quicGo, webTransport, xsys, "github.com/dunglas/httpsfv"},
	},
	"relay/transport/qmux": {
		ours:   []string{"relay/transport", "relay/wire"},
		others: []string{"github.com/coder/websocket", xsys},
	},
	"relay/transport/transporttest": {ours: []string{"relay/transport"}},
	"relay/session":                 {ours: []string{"relay/model", "relay/transport"}},
	"relay/session/lite":            {ours: []string{"relay/model", "relay/transport", "relay/session", "relay/wire", "relay/wire/lite"}},
	"relay/auth":                    {ours: []string{"relay/model", "relay/session"}, others: []string{"github.com/golang-jwt/jwt/v5"}},
	"relay/config":                  {others: []string{yaml, "go.yaml.in/yaml/v3", pflag, "github.com/fsnotify/fsnotify"}},
	"relay/status":                  {},
	"relay/preflight":               {ours: []string{"relay/config"}, others: []string{xsys}},
	"relay/cluster":                 {ours: []string{"relay/transport", "relay/config", "relay/status"}},
	"relay/admin":                   {ours: []string{"relay/status", "relay/config"}, others: []string{"github.com/prometheus/..."}},
	"relay": {
		ours:   []string{"relay/..."},
		others: []string{"golang.org/x/sync/..."},
	},
	"relay/load": {ours: []string{"relay/..."}, others: []string{xsys}},

	"api/v1alpha1/apitest": {ours: []string{"api/v1alpha1"}, others: []string{kubernetes, yaml}},
	"api/v1alpha1":         {others: []string{kubernetes, "sigs.k8s.io/controller-runtime/pkg/scheme"}},
	"controllers/render":   {ours: []string{"api/v1alpha1", "relay/config"}, others: []string{kubernetes, yaml}},
	"controllers/health":   {ours: []string{"relay/status"}},
	"controllers": {
		ours:   []string{"api/v1alpha1", "controllers/...", "relay/preflight"},
		others: []string{kubernetes, controller, "github.com/go-logr/logr", "sigs.k8s.io/structured-merge-diff/..."},
	},

	"cmd/relay":    {ours: []string{"relay", "relay/auth", "relay/config", "relay/preflight"}, others: []string{cobra, pflag}},
	"cmd/moq-load": {ours: []string{"relay/load"}, others: []string{cobra, pflag}},
	"cmd/manager":  {ours: []string{"controllers", "controllers/health", "controllers/render", "api/v1alpha1"}, others: []string{cobra, pflag, kubernetes, controller, "github.com/go-logr/logr", "go.uber.org/zap/..."}},

	"config":      {}, // tests of the manifests alone
	"test/arch":   {},
	"hack/bench":  {},
	"test/bench":  {ours: []string{"relay/load"}, others: []string{yaml}},
	"test/e2e":    {}, // tests alone, behind a build tag
	"test/kube":   {}, // tests alone, behind a build tag
	"test/mesh":   {}, // tests alone, behind a build tag
	"test/narrow": {}, // tests alone, behind a build tag
	"test/soak":   {}, // tests alone, behind a build tag
}

// neverUnder are imports that no package below a folder may have, directly or not.
var neverUnder = map[string][]string{
	"relay": {"k8s.io/", "sigs.k8s.io/controller-runtime"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
}

// listed returns the module's packages as the go command sees them, without tests.
func listed(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps,Standard", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestPackagesImportOnlyWhatTheirRowAllows(t *testing.T) {
	packages := listed(t)
	standard := map[string]bool{"C": true, "unsafe": true}
	for _, p := range packages {
		standard[p.ImportPath] = standard[p.ImportPath] || p.Standard
	}
	checked := 0
	for _, p := range packages {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		r, ok := rules[name]
		if !ok {
			t.Errorf("package %s has no row in the table of imports", name)
			continue
		}
		checked++
		for _, imported := range p.Imports {
			if !standard[imported] && !r.allows(imported) {
				t.Errorf("package %s may not import %s", name, imported)
			}
		}
	}
	if checked < 10 {
		t.Fatalf("only %d packages were checked", checked)
	}
}

func (r rule) allows(imported string) bool {
	if name, ours := strings.CutPrefix(imported, module); ours {
		return slices.ContainsFunc(r.ours, func(allowed string) bool { return matches(allowed, name) })
	}
	return slices.ContainsFunc(r.others, func(allowed string) bool { return matches(allowed, imported) })
}

func matches(allowed, name string) bool {
	prefix, all := strings.CutSuffix(allowed, "/...")
	return name == prefix || all && strings.HasPrefix(name, prefix+"/")
}

func TestNothingOfTheRelayKnowsKubernetes(t *testing.T) {
	for _, p := range listed(t) {
		for folder, banned := range neverUnder {
			name := strings.TrimPrefix(p.ImportPath, module)
			if name != folder && !strings.HasPrefix(name, folder+"/") {
				continue
			}
			for _, dep := range p.Deps {
				for _, prefix := range banned {
					if strings.HasPrefix(dep, prefix) {
						t.Errorf("package %s depends on %s", name, dep)
					}
				}
			}
		}
	}
}

func TestTheTableHasNoRowForAPackageThatIsGone(t *testing.T) {
	exists := map[string]bool{}
	for _, p := range listed(t) {
		exists[strings.TrimPrefix(p.ImportPath, module)] = true
	}
	for name := range rules {
		if !exists[name] {
			t.Errorf("the table of imports has a row for %s, which does not exist", name)
		}
	}
}
