package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const meshed = "auth: {mode: None}\ntls: {directories: [/tls]}\n"

func TestUpstreamsReadTheSameFromAFileAFlagAndWhatIsPrinted(t *testing.T) {
	want := []Upstream{{URL: "https://a.example:4443/live?jwt=x.y"}, {URL: "dns+https://b.example:4443", Cost: new(0)}}
	fromFile, err := Parse("x", []byte(meshed+`cluster:
  upstreams:
  - url: https://a.example:4443/live?jwt=x.y
  - {url: "dns+https://b.example:4443", cost: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	printed, err := Parse("x", fromFile.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	s := Source{Flags: map[string]string{"cluster.upstreams": "https://a.example:4443/live?jwt=x.y,dns+https://b.example:4443#cost=0"}}
	fromFlag, err := s.load([]byte(meshed), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]Upstream{
		"file": fromFile.Cluster.Upstreams, "printed": printed.Cluster.Upstreams, "flag": fromFlag.Config.Live().Upstreams,
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("from the %s: %+v, want %+v", name, got, want)
		}
	}
}

func TestFaultsOfTheClusterNameTheirKeyAndShowNoToken(t *testing.T) {
	_, err := Parse("relay.yaml", []byte(meshed+`cluster:
  listen: "4444"
  peers: [https://a.example:4444]
  upstreams: [{url: "https://a.example/live?jwt=secret"}]
`))
	accepted := "; accepted: at most 64 of https://HOST:PORT/PATH?jwt=TOKEN or dns+https://…, each with #cost=0..65535 behind it where it has one"
	wantFaults(
		t, err,
		`relay.yaml:4: cluster.listen: "4444" is not HOST:PORT; accepted: HOST:PORT, or "" for none`,
		`relay.yaml:5: cluster.peers: "https://a.example:4444" does not begin with dns+https://; accepted: at most 16 of dns+https://HOST:PORT`,
		`relay.yaml:6: cluster.upstreams: "https://a.example/live" has no HOST:PORT with a port from 1 to 65535`+accepted,
	)
}

func TestBadUpstreamsAreRefusedByWhatIsWrong(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no list", "https://a:1", "is not a list"},
		{"no mapping", "[https://a:1]", "item 1 is not a mapping of url and cost"},
		{"unknown key", `[{url: "https://a:1", weight: 3}]`, `item 1 has no key "weight"`},
		{"key twice", `[{url: "https://a:1", url: "https://b:1"}]`, `item 1 has no key "url", or has it twice`},
		{"no url", "[{cost: 3}]", "item 1 has no url"},
		{"text as cost", `[{url: "https://a:1", cost: "3"}]`, `item 1 has a cost that is not a whole number: "3"`},
		{"large cost", `[{url: "https://a:1", cost: 65536}]`, `cost 65536 of "https://a:1" is out of range`},
		{"negative cost", `[{url: "https://a:1", cost: -1}]`, `cost -1 of "https://a:1" is out of range`},
		{"scheme", `[{url: "http://a:1"}]`, `"http://a:1" begins neither with https:// nor with dns+https://`},
		{"port 0", `[{url: "https://a:0"}]`, "has no HOST:PORT"},
		{"no host", `[{url: "https://:1"}]`, "has no HOST:PORT"},
		{"user", `[{url: "https://name:secret@a:1"}]`, `"https://…@a:1" has a user or a fragment`},
		{"twice", `[{url: "https://a:1"}, {url: "https://a:1"}]`, `"https://a:1" is there twice`},
	}
	for _, tt := range tests {
		_, err := Parse("x", []byte(meshed+"cluster: {upstreams: "+tt.yaml+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "cluster.upstreams: ") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestAMeshNeedsAKeyThatOtherRelaysHave(t *testing.T) {
	for _, key := range []string{"listen: \":4444\"", "peers: [\"dns+https://a:4444\"]"} {
		_, err := Parse("x", []byte(minimal+"cluster: {"+key+"}\n"))
		if err == nil || !strings.Contains(err.Error(), "needs tls.mode Files: relays know each other by a TLS key") {
			t.Errorf("with %s and a self-signed certificate: %v", key, err)
		}
	}
	if _, err := Parse("x", []byte(minimal+"cluster: {upstreams: [{url: \"https://a:4443\"}]}\n")); err != nil {
		t.Errorf("an upstream is refused: %v", err)
	}
}

func TestUpstreamsReloadAndPeersDoNot(t *testing.T) {
	load := func(cluster string) *Loaded {
		t.Helper()
		path := filepath.Join(t.TempDir(), "relay.yaml")
		if err := os.WriteFile(path, []byte(meshed+"cluster: "+cluster+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Load(Source{File: path})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := load(`{peers: ["dns+https://a:4444"]}`)
	after := load(`{peers: ["dns+https://b:4444"], upstreams: [{url: "https://c:4443"}]}`)
	if got := needsRestart(before.Config, after.Config); !reflect.DeepEqual(got, []string{"cluster.peers"}) {
		t.Errorf("%v need a restart, want cluster.peers alone", got)
	}
	if got := after.Config.Live().Upstreams; len(got) != 1 {
		t.Errorf("%v are live, want one upstream", got)
	}
}

func TestTheFileOfUpstreamsIsAJSONArrayAndNothingElse(t *testing.T) {
	got, err := ParseUpstreams([]byte(` [{"url":"https://a:1/x?jwt=t","cost":7},{"url":"dns+https://b:2"}] `))
	want := []Upstream{{URL: "https://a:1/x?jwt=t", Cost: new(7)}, {URL: "dns+https://b:2"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{
		"", "{}", "[", `[{"url":"https://a:1"}] []`, `[{"url":"https://a:1","x":1}]`, `[{"url":"https://a:1?jwt=secret#x"}]`,
		`[{"url":"https://a:1","cost":70000}]`, `[{"url":"https://a:1"},{"url":"https://a:1"}]`, `[{}]`, `["https://a:1"]`,
	} {
		if got, err := ParseUpstreams([]byte(bad)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %+v, %v, want an error without the token", bad, got, err)
		}
	}
}

func FuzzParseUpstreams(f *testing.F) {
	f.Add([]byte(`[{"url":"https://a:1/x?jwt=t","cost":7}]`))
	f.Add([]byte(`[{"url":"dns+https://[::1]:2"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ParseUpstreams(data)
		if err != nil {
			return
		}
		c := Config{Cluster: Cluster{Upstreams: all}}
		var again Config
		if err := (&upstreams{&again.Cluster.Upstreams}).Set((&upstreams{&c.Cluster.Upstreams}).String()); err != nil {
			t.Fatalf("%q is valid, and its text form is not: %v", data, err)
		}
		if len(all) != len(again.Cluster.Upstreams) {
			t.Fatalf("%d upstreams became %d", len(all), len(again.Cluster.Upstreams))
		}
	})
}
