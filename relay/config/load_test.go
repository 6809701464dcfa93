package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// minimal is the least that a file must say.
const minimal = "auth: {mode: None}\ntls: {mode: SelfSigned}\n"

// wantFaults fails the test unless err is exactly these lines.
func wantFaults(t *testing.T, err error, lines ...string) {
	t.Helper()
	want := strings.Join(lines, "\n")
	if AsFaults(err) == nil || err.Error() != want {
		t.Errorf("faults:\n%v\nwant:\n%s", err, want)
	}
}

func TestAFlagBeatsAVariableBeatsTheFileBeatsTheDefault(t *testing.T) {
	file := []byte(minimal + "limits: {sessions: 2, sessionsPerIP: 2, subscriptionsPerSession: 2}\n")
	s := Source{
		Env:   []string{"MOQ_LIMITS_SESSIONS=3", "MOQ_LIMITS_SESSIONS_PER_IP=3", "HOME=/root"},
		Flags: map[string]string{"limits.sessions": "4"},
	}
	loaded, err := s.load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Default().Limits
	want.Sessions, want.SessionsPerIP, want.SubscriptionsPerSession = 4, 3, 2
	if got := loaded.Config.Limits; got != want {
		t.Errorf("limits are %+v, want %+v", got, want)
	}
}

func TestAListReplacesTheListBelowItAnEmptyOneIncluded(t *testing.T) {
	file := []byte(minimal + "protocols: [moq-lite-05, moq-lite-04]\ntransports: {allowedOrigins: []}\n")
	s := Source{Env: []string{"MOQ_PROTOCOLS=moq-lite-03"}}
	loaded, err := s.load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := loaded.Config.Protocols; !slices.Equal(got, []string{"moq-lite-03"}) {
		t.Errorf("protocols are %v, want the variable's alone", got)
	}
	if got := loaded.Config.Transports.AllowedOrigins; len(got) != 0 {
		t.Errorf("allowedOrigins are %v, want none", got)
	}
	s.Flags = map[string]string{"protocols": ""}
	loaded, err = s.load(file, nil)
	if err != nil || !slices.Equal(loaded.Config.Protocols, Released()) {
		t.Errorf("with an empty flag protocols are %v, %v, want every released one", loaded, err)
	}
}

func TestAllFaultsOfAFileAreToldAtOnceWithTheirLines(t *testing.T) {
	_, err := Parse("relay.yaml", []byte(`listen: 4443
window:
  stream: 1Mi
windows:
  stream: 3Ki
  strem: 2Mi
  pacingCap: 32Mi
  pacingCap: 1Mi
limits:
  sessions: "12"
  sessionsPerIP: many
cache: 12
transports:
  qmuxDrafts: "00"
  quic: [a]
drain:
  timeoutSeconds:
`))
	wantFaults(
		t, err,
		"relay.yaml:2: window: no such key",
		"relay.yaml:6: windows.strem: no such key; did you mean windows.stream?",
		"relay.yaml:8: windows.pacingCap: is there twice, first on line 7",
		`relay.yaml:10: limits.sessions: "12" is not a whole number; accepted: 0..2147483647`,
		`relay.yaml:11: limits.sessionsPerIP: "many" is not a whole number; accepted: 0..2147483647`,
		"relay.yaml:12: cache: is not a mapping of keys to values",
		"relay.yaml:14: transports.qmuxDrafts: is not a list; accepted: at most 8 of 00, 01, 02",
		"relay.yaml:15: transports.quic: is not a mapping of keys to values",
		"relay.yaml:17: drain.timeoutSeconds: has no value; accepted: 0..86400",
		`relay.yaml:1: listen: "4443" is not HOST:PORT; accepted: HOST:PORT`,
		"relay.yaml:5: windows.stream: 3Ki is out of range; accepted: 64Ki..128Mi",
		"relay.yaml:7: windows.pacingCap: 32Mi is out of range; accepted: 64Ki..16Mi",
		"auth.mode: is required; accepted: None, JWT",
		"tls.directories: is required when tls.mode is Files; accepted: 1 to 17 directory paths",
	)
}

func TestARuleBetweenKeysIsReportedWhereItsKeyIsWritten(t *testing.T) {
	_, err := Parse("relay.yaml", []byte(minimal+"windows:\n  stream: 2Mi\n  connection: 3Mi\n"))
	wantFaults(t, err, "relay.yaml:5: windows.connection: 3145728 is less than 2 × windows.stream (2 × 2097152 = 4194304)")
}

func TestFaultsOfFlagsAndVariablesNameThem(t *testing.T) {
	base := Development()
	s := Source{
		Base: &base,
		Env: []string{
			"MOQ_WINDOWS_STREAM=1", "MOQ_WINDOW_STREAM=1Mi",
			// What the kubelet sets for Services called "moq" and "moq-relay".
			"MOQ_SERVICE_HOST=10.0.0.1", "MOQ_SERVICE_PORT=443", "MOQ_RELAY_SERVICE_PORT_HTTPS_ALT=1", "MOQ_PORT=udp://10.0.0.1:443",
			"MOQ_RELAY_PORT_443_UDP_ADDR=10.0.0.1", "MOQ_RELAY_PORT_443_UDP=udp://10.0.0.1:443",
		},
		Flags: map[string]string{"log.level": "loud"},
	}
	_, err := s.load(nil, nil)
	wantFaults(
		t, err,
		"environment: MOQ_WINDOW_STREAM: no such variable",
		"MOQ_WINDOWS_STREAM: windows.stream: 1 is out of range; accepted: 64Ki..128Mi",
		`--log-level: log.level: "loud" is not a choice; accepted: debug, info, warn, error`,
	)
}

func TestTheLiveFileHoldsLiveKeysAlone(t *testing.T) {
	s := Source{File: "a.yaml", LiveFile: "b.yaml"}
	_, err := s.load([]byte(minimal+"log: {level: warn}\n"), []byte("log:\n  level: debug\nwindows:\n  stream: 2Mi\n  pacingCap: 1Mi\n"))
	wantFaults(
		t, err,
		"b.yaml:2: log.level: is in the config file too (a.yaml:3); accepted: one of the two",
		"b.yaml:4: windows.stream: needs a restart: it belongs in the config file, not in the live one",
	)
	loaded, err := s.load([]byte(minimal), []byte("log: {level: debug}\nwindows: {pacingCap: 1Mi}\n"))
	if err != nil || loaded.Config.Log.Level != LevelDebug || loaded.Config.Windows.PacingCap != MiB {
		t.Errorf("a live file of its own keys gives %+v, %v", loaded, err)
	}
}

func TestTheTwoFilesAreJudgedTogether(t *testing.T) {
	s := Source{File: "a.yaml", LiveFile: "b.yaml"}
	_, err := s.load([]byte(minimal+"drain: {timeoutSeconds: 10}\n"), []byte("drain: {goawaySpreadSeconds: 11}\n"))
	wantFaults(t, err, "b.yaml:1: drain.goawaySpreadSeconds: 11 is more than drain.timeoutSeconds (10)")
}

func TestHashesAreSHA256OfTheFilesBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "relay.yaml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(Source{File: path})
	if err != nil {
		t.Fatal(err)
	}
	// printf 'auth: {mode: None}\ntls: {mode: SelfSigned}\n' | sha256sum
	const want = "5a2b0fa38f31736dc15d156ae408271106c3f06715c49be562ec0c7123e745e2"
	if loaded.Hash != want || loaded.LiveHash != "" {
		t.Errorf("hashes are %q and %q, want %q and none", loaded.Hash, loaded.LiveHash, want)
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	_, err := Load(Source{File: "/nonexistent/relay.yaml"})
	if err == nil || !strings.Contains(err.Error(), "read config file: open /nonexistent/relay.yaml") || AsFaults(err) != nil {
		t.Errorf("Load = %v, want the path and no faults", err)
	}
}

func TestOddFilesAreReadOrRefusedAsAWhole(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"comments", "# nothing\n", ""},
		{"empty section", "limits:\n", ""},
		{"JSON", `{"limits": {"sessions": 1}}`, ""},
		{"a value", "3", "relay.yaml:1: is not a mapping of keys to values"},
		{"two documents", "log: {}\n---\nlog: {}\n", "relay.yaml: more than one YAML document; accepted: one"},
		{"no YAML", "a: [", "relay.yaml: yaml: line 1: did not find expected node content"},
		{"an alias", "log: &a {level: info}\ncache: *a\n", "relay.yaml:2: cache: is an alias; write the value out"},
		{"an alias for a value", "log: {level: &a info, format: *a}\n", "relay.yaml:1: log.format: is an alias; write the value out"},
		{"a merge", "log: {<<: {level: info}}\n", "relay.yaml:1: log.<<: no such key"},
		{"a key that is a list", "[a]: 1\n", "relay.yaml:1: has a key that is not a word"},
		{"too large", strings.Repeat("#", MaxFile+1), "relay.yaml: the file has 1048577 bytes; accepted: at most 1048576"},
	}
	for _, tt := range tests {
		base := Development()
		_, err := Source{File: "relay.yaml", Base: &base}.load([]byte(tt.text), nil)
		if got := errText(err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// errText is the error's text; empty for nil.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAFileWithAThousandFaultsIsCutAtAHundred(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString("x" + strings.Repeat("y", i) + ": 1\n")
	}
	base := Development()
	_, err := Source{Base: &base}.load([]byte(b.String()), nil)
	if got := len(AsFaults(err)); got != 100 {
		t.Errorf("%d faults, want 100", got)
	}
}

func TestTheCacheStaysBelowTheMemoryLimit(t *testing.T) {
	base := Development()
	s := Source{Base: &base, MemoryLimit: 64 << 20, Flags: map[string]string{"cache.maxBytes": "64Mi"}}
	_, err := s.load(nil, nil)
	wantFaults(t, err, "--cache-max-bytes: cache.maxBytes: 64Mi is not below the memory limit of 67108864 bytes")
	s.Flags["cache.maxBytes"] = "63Mi"
	if _, err := s.load(nil, nil); err != nil {
		t.Errorf("63Mi of 64Mi: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add(Development().Marshal())
	f.Add([]byte("windows:\n  stream: 3Ki\n  stream: 4Mi\ntls: &x {mode: Foo}\nlog: *x\n"))
	f.Add([]byte("tls: {directories: [\"a\\u0085b\"]}\nauth: {mode: None}\nlisten: \"é:1\"\n"))
	f.Add([]byte("? [a]\n: 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if err != nil {
			if AsFaults(err) == nil {
				t.Fatalf("an error that is no faults: %v", err)
			}
			return
		}
		again, err := Parse("again.yaml", c.Marshal())
		if err != nil {
			t.Fatalf("what was printed is refused: %v\n%s", err, c.Marshal())
		}
		for _, k := range keys {
			if k.Value(again) != k.Value(c) {
				t.Fatalf("%s is %q, printed and read back %q", k.Name, k.Value(c), k.Value(again))
			}
		}
	})
}
