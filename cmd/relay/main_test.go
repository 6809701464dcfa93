package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/preflight"
)

// result is what a command printed and how it ended.
type result struct {
	stdout, stderr string
	code           int
}

// run executes a command line.
func run(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{stdout: &stdout, stderr: &stderr, env: env}
	code := p.run(t.Context(), args)
	return result{stdout.String(), stderr.String(), code}
}

// newFile writes a file and returns its path.
func newFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const minimal = "auth: {mode: None}\ntls: {mode: SelfSigned}\n"

func TestValidateListsEveryFaultWithItsLine(t *testing.T) {
	path := newFile(t, "relay.yaml", minimal+"windows: {stream: 2Mi, connection: 3Mi}\nlimits:\n  sesions: 1\n")
	got := run(t, nil, "validate", path)
	want := "moq-relay: the configuration has 2 faults:\n" +
		"  " + path + ":5: limits.sesions: no such key; did you mean limits.sessions?\n" +
		"  " + path + ":3: windows.connection: 3145728 is less than 2 × windows.stream (2 × 2097152 = 4194304)\n"
	if got.code != 78 || got.stderr != want || got.stdout != "" {
		t.Errorf("exit %d\n%s%s\nwant exit 78\n%s", got.code, got.stdout, got.stderr, want)
	}
}

func TestValidateAcceptsAGoodFileWhateverTheEnvironment(t *testing.T) {
	path := newFile(t, "relay.yaml", minimal)
	got := run(t, []string{"MOQ_LOG_LEVEL=loud"}, "validate", path)
	if got.code != 0 || got.stdout != path+" is valid\n" {
		t.Errorf("exit %d: %q %q", got.code, got.stdout, got.stderr)
	}
}

func TestValidateChecksBothFilesTogether(t *testing.T) {
	live := newFile(t, "live.yaml", "listen: \":1\"\n")
	got := run(t, nil, "validate", newFile(t, "relay.yaml", minimal), "--live-config", live)
	want := live + ":1: listen: needs a restart: it belongs in the config file, not in the live one"
	if got.code != 78 || !strings.Contains(got.stderr, want) {
		t.Errorf("exit %d: %s, want %s", got.code, got.stderr, want)
	}
}

func TestAFileThatIsNotThereIsNoFaultOfTheConfiguration(t *testing.T) {
	got := run(t, nil, "validate", "/nonexistent")
	if got.code != 1 || got.stderr != "moq-relay: read config file: open /nonexistent: no such file or directory\n" {
		t.Errorf("exit %d: %q", got.code, got.stderr)
	}
}

func TestConfigPrintsWhatValidateAccepts(t *testing.T) {
	file := newFile(t, "relay.yaml", minimal+"limits: {sessions: 1, sessionsPerIP: 1}\n")
	got := run(t, []string{"MOQ_LIMITS_SESSIONS_PER_IP=2"}, "config", "--config", file,
		"--windows-stream", "2Mi", "--protocols", "moq-lite-05", "--protocols", "moq-lite-04")
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	for _, line := range []string{"  sessions: 1\n", "  sessionsPerIP: 2\n", "  stream: 2Mi\n", `protocols: ["moq-lite-05", "moq-lite-04"]` + "\n", "  goawaySpreadSeconds: 30\n"} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("%q is not in\n%s", line, got.stdout)
		}
	}
	printed := newFile(t, "printed.yaml", got.stdout)
	if again := run(t, nil, "config", "--config", printed); again.stdout != got.stdout {
		t.Errorf("printed and read back:\n%s%s\nwant\n%s", again.stdout, again.stderr, got.stdout)
	}
}

func TestDevChangesTheDefaultsAndNothingElse(t *testing.T) {
	got := run(t, nil, "config", "--dev", "--drain-timeout-seconds", "7")
	for _, line := range []string{"  mode: SelfSigned\n", "  mode: None\n", "  timeoutSeconds: 7\n", "  goawaySpreadSeconds: 3\n"} {
		if !strings.Contains(got.stdout, line) {
			t.Errorf("%q is not in\n%s%s", line, got.stdout, got.stderr)
		}
	}
}

func TestFaultsOfFlagsAndEnvironmentAreTold(t *testing.T) {
	got := run(t, []string{"MOQ_LOG_FORMAT=xml"}, "config", "--dev", "--windows-stream", "banana")
	want := "moq-relay: the configuration has 2 faults:\n" +
		"  MOQ_LOG_FORMAT: log.format: \"xml\" is not a choice; accepted: json, text\n" +
		"  --windows-stream: windows.stream: \"banana\" is not a number of bytes such as 4194304, 4Mi or 8MB; accepted: 64Ki..128Mi\n"
	if got.code != 78 || got.stderr != want {
		t.Errorf("exit %d\n%s\nwant exit 78\n%s", got.code, got.stderr, want)
	}
}

func TestACommandLineThatMakesNoSenseExitsWithTwo(t *testing.T) {
	for _, args := range [][]string{{"validate"}, {"validate", "a", "b"}, {"config", "--windows-strem", "1"}, {"sreve"}, {"version", "x"}, {"preflight", "--max-node-buffer", "many"}} {
		if got := run(t, nil, args...); got.code != 2 || !strings.HasPrefix(got.stderr, "moq-relay: ") {
			t.Errorf("%v: exit %d: %q, want exit 2", args, got.code, got.stderr)
		}
	}
}

func TestEveryKeyIsAFlagOfServe(t *testing.T) {
	help := run(t, nil, "serve", "--help").stdout
	for _, k := range config.Keys() {
		if !strings.Contains(help, "--"+k.Flag()+" ") {
			t.Errorf("--%s is not in the help", k.Flag())
		}
	}
}

func TestVersionIsTheOneThatWasBuiltIn(t *testing.T) {
	version = "v9.8.7"
	t.Cleanup(func() { version = "" })
	if got := run(t, nil, "version"); !strings.HasPrefix(got.stdout, "moq-relay v9.8.7 (go1.") {
		t.Errorf("version prints %q", got.stdout)
	}
	version = ""
	if got := run(t, nil, "version"); strings.HasPrefix(got.stdout, "moq-relay  ") {
		t.Errorf("without a built-in version it prints %q", got.stdout)
	}
}

func TestPreflightPrintsTheReportAndWritesItToTheTerminationLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	got := run(t, []string{"NODE_NAME=node-a"}, "preflight", "--termination-log", log, "--auth-mode", "None",
		"--tls-directories", "/nonexistent/web", "--socket-buffers-receive", "208Ki", "--socket-buffers-send", "208Ki")
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	r, err := preflight.ParseReport(got.stdout)
	if err != nil || r.V != 1 || r.Node != "node-a" || r.Mode != "Verify" || r.Err != "" || len(r.Certs) != 1 || r.Certs[0].Err != preflight.ReasonSecretMissing {
		t.Errorf("report is %s, %v", got.stdout, err)
	}
	if data, err := os.ReadFile(log); err != nil || string(data)+"\n" != got.stdout {
		t.Errorf("the log has %q, %v, want what was printed", data, err)
	}
}

func TestPreflightStopsTheStartOnlyWhereBuffersAreRequired(t *testing.T) {
	for requirement, want := range map[string]int{"Preferred": 0, "Required": 78} {
		log := filepath.Join(t.TempDir(), "log")
		got := run(t, nil, "preflight", "--termination-log", log, "--auth-mode", "None", "--tls-mode", "SelfSigned",
			"--socket-buffers-receive", "512Mi", "--socket-buffers-requirement", requirement)
		r, err := preflight.ParseReport(got.stdout)
		if err != nil || r.RX == nil {
			t.Fatalf("report is %s, %v", got.stdout, err)
		}
		if r.RX.Got == 512<<20 {
			t.Skip("this machine grants everything")
		}
		if got.code != want || r.Err != preflight.ReasonReceiveBelowRequested {
			t.Errorf("%s: exit %d, report %s, want exit %d and ReceiveBelowRequested", requirement, got.code, got.stdout, want)
		}
	}
}

func TestPreflightReportsABadConfigurationWithCode78(t *testing.T) {
	log := newFile(t, "log", "what was there before, and is longer than the report will be "+strings.Repeat("x", 2000))
	got := run(t, nil, "preflight", "--termination-log", log, "--config", newFile(t, "relay.yaml", minimal+"listen: x\n"))
	data, _ := os.ReadFile(log)
	r, err := preflight.ParseReport(string(data))
	if got.code != 78 || err != nil || r.Err != preflight.ReasonConfigInvalid || !strings.Contains(r.Msg, `listen: "x" is not HOST:PORT`) {
		t.Errorf("exit %d, report %s, %v", got.code, data, err)
	}
}

func TestServeReportsABadConfigurationWithCode78(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	got := run(t, nil, "serve", "--termination-log", log)
	data, _ := os.ReadFile(log)
	r, err := preflight.ParseReport(string(data))
	if got.code != 78 || err != nil || r.Err != preflight.ReasonConfigInvalid || !strings.Contains(r.Msg, "auth.mode: is required") {
		t.Errorf("exit %d, report %s, %v", got.code, data, err)
	}
}
