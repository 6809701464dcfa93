package node

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

func newTestCluster(t *testing.T) *Cluster {
	t.Helper()
	return &Cluster{Dir: t.TempDir(), journal: machine.Journal{
		Address:  netip.MustParseAddr("192.0.2.7"),
		Pods:     netip.MustParsePrefix("10.244.0.0/24"),
		Services: netip.MustParsePrefix("10.96.0.0/24"),
	}}
}

func TestTheConfigurationIsWrittenForTheAddressInUse(t *testing.T) {
	c := newTestCluster(t)
	if err := c.writeConfigs(); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"kubelet.yaml":             {"address: 192.0.2.7\n", `clusterDNS: ["10.96.0.10"]`, "failCgroupV1: false\n", "containerRuntimeEndpoint: unix://" + c.Dir},
		"proxy.yaml":               {"mode: nftables\n", "clusterCIDR: 10.244.0.0/24\n", `nodePortAddresses: ["primary"]`},
		"containerd.toml":          {`sandbox_image = "moqrelay.test/pause:1"`, "oom_score = 0\n"},
		"cni/10-moqrelay.conflist": {`"subnet": "10.244.0.0/24", "gateway": "10.244.0.1"`, `"bridge": "moq0"`},
		"scheduler.yaml":           {"leaderElect: false"},
		"Corefile":                 {".:10053 {", "bind 10.244.0.1\n", "kubeconfig " + c.Dir + "/pki/dns.kubeconfig\n", "ttl 5\n"},
		"dns.yaml":                 {"clusterIP: 10.96.0.10\n", "targetPort: 10053}", `addresses: ["10.244.0.1"]`},
	} {
		b, err := os.ReadFile(filepath.Join(c.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s has no %q:\n%s", file, want, b)
			}
		}
	}
}

func TestNothingListensOnAWildcardAddress(t *testing.T) {
	c := newTestCluster(t)
	for _, name := range components {
		for _, arg := range c.command(name) {
			if strings.Contains(arg, "0.0.0.0") || strings.Contains(arg, "[::]") {
				t.Errorf("%s is called with %s", name, arg)
			}
		}
	}
	if !slices.Contains(c.command("kube-apiserver"), "--bind-address=192.0.2.7") {
		t.Error("the API server is not bound to the node's address")
	}
}

func TestThePortsAreAllDifferent(t *testing.T) {
	seen := map[int]string{}
	for _, p := range ports.list() {
		if other, ok := seen[p.Number]; ok {
			t.Errorf("%s and %s both want port %d", other, p.Program, p.Number)
		}
		seen[p.Number] = p.Program
	}
	if len(seen) != 10 {
		t.Errorf("%d ports, want 10", len(seen))
	}
}

func TestAPodAndServiceRangeAreNeverTheSame(t *testing.T) {
	for _, p := range podRanges {
		for _, s := range serviceRanges {
			if p.Overlaps(s) {
				t.Errorf("pods %v overlap Services %v", p, s)
			}
		}
	}
}

func TestANodeIsReadyWhenItsConditionSaysSoAndItsTaintIsGone(t *testing.T) {
	for _, c := range []struct{ node, want string }{
		{`{}`, "no condition Ready"},
		{`{"status":{"conditions":[{"type":"Ready","status":"False","message":"no network"}]}}`, "no network"},
		{`{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "not-ready"},
		{`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, ""},
	} {
		var n nodeState
		if err := json.Unmarshal([]byte(c.node), &n); err != nil {
			t.Fatal(err)
		}
		err := n.ready()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.node, err, c.want)
		}
	}
}

func TestTheNamesOfLoadedImagesAreReadFromTheImport(t *testing.T) {
	got := imported("unpacking moqrelay.test/a:1 (sha256:00)...done\nunpacking moqrelay.test/b:2 (sha256:11)...done\n")
	if want := []string{"moqrelay.test/a:1", "moqrelay.test/b:2"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}

func TestTheEndOfALogIsShownWithLongLinesCut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.log")
	text := "one\ntwo\nthree\n" + strings.Repeat("x", 500) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	want := "    three\n    " + strings.Repeat("x", 400) + "…\n"
	if got := tail(file, 2); got != want {
		t.Errorf("tail %q, want %q", got, want)
	}
}

func TestNamesOfOthersAreAskedForOnlyOnAMachineWithANameServer(t *testing.T) {
	c := newTestCluster(t)
	with, without := filepath.Join(t.TempDir(), "with"), filepath.Join(t.TempDir(), "without")
	for file, text := range map[string]string{with: "search example.test\nnameserver 192.0.2.53\n", without: "# nameserver 192.0.2.53\nnameserver\n"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for file, want := range map[string]string{with: with, without: "", without + "-none": ""} {
		got, err := resolvers(file)
		if err != nil || got != want {
			t.Errorf("resolvers of %s: %q, %v; want %q", filepath.Base(file), got, err, want)
		}
		v, err := c.values()
		if err != nil {
			t.Fatal(err)
		}
		v.Resolvers = got
		corefile, err := render("Corefile", v)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(corefile), "forward . "+with+"\n"); has != (want != "") {
			t.Errorf("with %s the server forwards: %v\n%s", filepath.Base(file), has, corefile)
		}
	}
}
