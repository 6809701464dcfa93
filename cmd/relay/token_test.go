package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/auth"
)

// runWith is run with something on stdin.
func runWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}
	code := p.run(t.Context(), args)
	return result{stdout.String(), stderr.String(), code}
}

// newKeyFiles makes a key and returns the paths of it and its public half.
func newKeyFiles(t *testing.T, algorithm string) (key, public string) {
	t.Helper()
	dir := t.TempDir()
	key, public = filepath.Join(dir, "k.jwk"), filepath.Join(dir, "k.pub.jwk")
	if got := run(t, nil, "token", "keygen", "--id", "k", "--algorithm", algorithm, "--key", key, "--public", public); got.code != 0 {
		t.Fatalf("keygen: %s", got.stderr)
	}
	return key, public
}

func TestATokenThatIsSignedIsVerifiedWithThePublicHalf(t *testing.T) {
	for _, algorithm := range auth.Algorithms() {
		if strings.HasPrefix(algorithm, "HS") {
			continue
		}
		key, public := newKeyFiles(t, algorithm)
		signed := run(t, nil, "token", "sign", "--key", key, "--root", "room/1", "--publish", "alice", "--subscribe", "", "--expires", "4102444800")
		if signed.code != 0 || strings.Count(signed.stdout, ".") != 2 {
			t.Fatalf("%s: sign: %d %s", algorithm, signed.code, signed.stderr)
		}
		got := runWith(t, signed.stdout, "token", "verify", "--key", public, "--path", "/room/1")
		if got.code != 0 || got.stderr != "at /room/1: may publish [room/1/alice/**] and watch [room/1/**], until 2100-01-01T00:00:00Z\n" ||
			!strings.Contains(got.stdout, `"put": [`) {
			t.Errorf("%s: verify: %d\n%s%s", algorithm, got.code, got.stdout, got.stderr)
		}
	}
}

func TestAKeyFileIsForItsOwnerAloneAndNeverOverwritten(t *testing.T) {
	key, public := newKeyFiles(t, "ES256")
	info, err := os.Stat(key)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v, want 0600", info.Mode(), err)
	}
	if text, _ := os.ReadFile(public); bytes.Contains(text, []byte(`"d"`)) || bytes.Contains(text, []byte("sign")) {
		t.Errorf("the public half is\n%s", text)
	}
	if got := run(t, nil, "token", "keygen", "--key", key); got.code != 1 || !strings.Contains(got.stderr, "file exists") {
		t.Errorf("a key is overwritten: %d %s", got.code, got.stderr)
	}
	if got := run(t, nil, "token", "keygen", "--algorithm", "HS256", "--public", filepath.Join(t.TempDir(), "p")); got.code != 1 || !strings.Contains(got.stderr, "no public half") {
		t.Errorf("a secret's public half: %d %s", got.code, got.stderr)
	}
}

func TestKeygenWritesToStdoutAlsoAsBase64(t *testing.T) {
	for _, args := range [][]string{{"--algorithm", "HS512"}, {"--algorithm", "HS512", "--base64"}} {
		got := run(t, nil, append([]string{"token", "keygen"}, args...)...)
		k, err := auth.ParseKey([]byte(got.stdout))
		if got.code != 0 || err != nil || k.Algorithm() != "HS512" || len(k.ID) != 16 {
			t.Errorf("%v: %d %s, %v", args, got.code, got.stdout, err)
		}
	}
}

func TestTokenCommandsSayWhatIsWrong(t *testing.T) {
	key, public := newKeyFiles(t, "ES256")
	token := run(t, nil, "token", "sign", "--key", key, "--root", "room", "--subscribe", "").stdout
	for _, row := range []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{"", []string{"keygen", "--algorithm", "ES512"}, 1, `algorithm "ES512" is not accepted; accepted: HS256`},
		{"", []string{"keygen", "--id", "a/b"}, 1, `--id "a/b" has other characters`},
		{"", []string{"sign", "--root", "x"}, 2, `required flag(s) "key" not set`},
		{"", []string{"sign", "--key", key}, 1, "token: it grants nothing"},
		{"", []string{"sign", "--key", key, "--publish", "a", "--subscribe-pattern", "b"}, 1, "together with"},
		{"", []string{"sign", "--key", public, "--publish", "a"}, 1, `key "k": "key_ops" lacks "sign": it cannot make tokens`},
		{"", []string{"sign", "--key", key, "--publish", "a", "--expires", "soon"}, 1, `--expires: "soon" is no duration such as 1h`},
		{"", []string{"sign", "--key", "/nonexistent", "--publish", "a"}, 1, "read the key: open /nonexistent: no such file"},
		{token, []string{"verify"}, 1, "no key to check with: give --key, --key-directory or --jwks"},
		{token, []string{"verify", "--key", public, "--path", "/other"}, 1, `its root "room" does not fit the requested path "other"`},
		{"x", []string{"verify", "--key", public}, 1, "it is no signed JWT"},
		{"", []string{"verify", "--key", public}, 1, "the token (?jwt=) is empty"},
		{token, []string{"verify", "--key", "/nonexistent"}, 1, "there is no key here to check it with"},
	} {
		got := runWith(t, row.stdin, append([]string{"token"}, row.args...)...)
		if got.code != row.code || !strings.Contains(got.stderr, row.want) || got.stdout != "" {
			t.Errorf("token %v: %d %q %s\nwant %d %s", row.args, got.code, got.stdout, got.stderr, row.code, row.want)
		}
	}
}

func TestTimesAreDurationsTimesOrSeconds(t *testing.T) {
	now := time.Unix(1000, 0)
	for text, want := range map[string]int64{"1h": 4600, "1970-01-01T00:01:00Z": 60, "77": 77, "-1m": 940} {
		if got, err := parseTime(text, now); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
}

// actAsRelay makes this test's program behave as moq-relay.
const actAsRelay = "TEST_ACTS_AS_MOQ_RELAY"

func TestMain(m *testing.M) {
	if os.Getenv(actAsRelay) != "" {
		main()
	}
	os.Exit(m.Run())
}

var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

func TestTheCommandsOfTheAccessPageWork(t *testing.T) {
	page, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	script := "#!/bin/sh\n" + actAsRelay + "=1 exec '" + self + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "moq-relay"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	for _, block := range shell.FindAllSubmatch(page, -1) {
		commands.Write(block[1])
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-eux")
	cmd.Dir = t.TempDir()
	cmd.Stdin = strings.NewReader(commands.String())
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if n := strings.Count(commands.String(), "moq-relay "); err != nil || n < 10 {
		t.Fatalf("%d commands: %v\n%s", n, err, out)
	}
	for _, want := range []string{
		"relay.yaml is valid",
		"at /room/1: may publish [room/1/alice/**] and watch [], until ",
		"at /: may publish [] and watch [room/1/**], until ",
		"at /room/7: may publish [room/*/camera] and watch [room/**], for ever",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in what they print:\n%s", want, out)
		}
	}
}
