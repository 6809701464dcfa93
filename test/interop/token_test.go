//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// made is what tokens.mjs makes for one algorithm.
type made struct {
	Algorithm   string
	Key, Public json.RawMessage
	Tokens      []struct {
		Claims map[string]any
		Token  string
	}
}

// talk runs a program to its end with lines on stdin, and returns its lines.
func talk(t *testing.T, stdin []string, program string, args ...string) (lines []string, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = "js"
	cmd.Stdin = strings.NewReader(strings.Join(stdin, "\n") + "\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), errs.String(), err
}

// tokens runs a command of tokens.mjs, which must succeed.
func tokens(t *testing.T, stdin []string, args ...string) []string {
	t.Helper()
	lines, stderr, err := talk(t, stdin, "node", append([]string{"tokens.mjs"}, args...)...)
	if err != nil {
		t.Fatalf("tokens.mjs %v: %v\n%s", args, err, stderr)
	}
	// The client library writes lines of its own.
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "{") })
}

// ours runs a command of `moq-relay token`.
func ours(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	lines, stderr, err := talk(t, []string{stdin}, filepath.Join(built, "relay"), append([]string{"token"}, args...)...)
	return strings.Join(lines, "\n"), stderr, err
}

func makeTokens(t *testing.T) (all []made) {
	t.Helper()
	for _, line := range tokens(t, nil, "make") {
		var m made
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, m)
	}
	if len(all) != 12 {
		t.Fatalf("%d algorithms, want 12", len(all))
	}
	return all
}

// keyDirectory has the public half of every key.
func keyDirectory(t *testing.T, all []made) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range all {
		if err := os.WriteFile(filepath.Join(dir, "js-"+m.Algorithm+".jwk"), m.Public, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTokensOfThePublicPackageAreReadWithEveryAlgorithmAndClaimForm(t *testing.T) {
	t.Parallel()
	all := makeTokens(t)
	dir := keyDirectory(t, all)
	for _, m := range all {
		for _, made := range m.Tokens {
			root := made.Claims["root"].(string)
			stdout, stderr, err := ours(t, made.Token, "verify", "--key-directory", dir, "--path", "/"+root)
			if err != nil {
				t.Errorf("%s, %v: %v %s", m.Algorithm, made.Claims, err, stderr)
				continue
			}
			var claims map[string]any
			if err := json.Unmarshal([]byte(stdout), &claims); err != nil {
				t.Fatal(err)
			}
			for name, want := range made.Claims {
				if name != "iat" && !reflect.DeepEqual(claims[name], want) {
					t.Errorf("%s: claim %s is %v, want %v", m.Algorithm, name, claims[name], want)
				}
			}
			if flipped := made.Token[:len(made.Token)-6] + flip(made.Token[len(made.Token)-6:]); flipped != made.Token {
				if _, stderr, err := ours(t, flipped, "verify", "--key-directory", dir, "--path", "/"+root); err == nil || !strings.Contains(stderr, "signature") {
					t.Errorf("%s: a changed signature: %v %s", m.Algorithm, err, stderr)
				}
			}
		}
	}
}

// flip changes the first letter.
func flip(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

func TestThePublicPackageReadsOurTokensAndKeys(t *testing.T) {
	t.Parallel()
	var checks, signings []string
	var publics []string
	for _, m := range makeTokens(t) {
		dir := t.TempDir()
		key, public := filepath.Join(dir, "key.jwk"), filepath.Join(dir, "public.jwk")
		args := []string{"keygen", "--algorithm", m.Algorithm, "--id", "go-" + m.Algorithm, "--key", key}
		if strings.HasPrefix(m.Algorithm, "HS") {
			public = key
		} else {
			args = append(args, "--public", public)
		}
		if _, stderr, err := ours(t, "", args...); err != nil {
			t.Fatalf("%s: %v %s", m.Algorithm, err, stderr)
		}
		token, stderr, err := ours(t, "", "sign", "--key", key, "--root", "room", "--publish", "alice", "--publish", "bob", "--subscribe", "", "--expires", "1h")
		if err != nil {
			t.Fatalf("%s: %v %s", m.Algorithm, err, stderr)
		}
		checks = append(checks, request(t, public, map[string]any{"token": token, "root": "room"}))
		signings = append(signings, request(t, key, map[string]any{"claims": map[string]any{"root": "room", "get": "x"}}))
		publics = append(publics, public)
	}
	for i, line := range tokens(t, checks, "check") {
		var got struct {
			Claims map[string]any
			Error  string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if got.Error != "" || fmt.Sprint(got.Claims["put"]) != "[alice bob]" || fmt.Sprint(got.Claims["get"]) != "[]" || got.Claims["exp"] == nil {
			t.Errorf("%s: %s", checks[i][:60], line)
		}
	}
	for i, line := range tokens(t, signings, "sign") {
		var got struct{ Token string }
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if _, stderr, err := ours(t, got.Token, "verify", "--key", publics[i], "--path", "/room"); err != nil {
			t.Errorf("signed there with our key %s: %v %s", publics[i], err, stderr)
		}
	}
}

// request is a line for tokens.mjs with the key of a file.
func request(t *testing.T, keyFile string, members map[string]any) string {
	t.Helper()
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	members["key"] = json.RawMessage(key)
	line, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestARunningRelayLetsInWhoBringsATokenOfThePublicPackage(t *testing.T) {
	t.Parallel()
	all := makeTokens(t)
	r := startRelay(t, "--auth-mode", "JWT", "--auth-key-directory", keyDirectory(t, all))
	var visits, refusals []string
	for _, m := range all {
		publisher, viewer := m.Tokens[0].Token, m.Tokens[1].Token
		line, _ := json.Marshal(map[string]string{"publisher": publisher, "viewer": viewer})
		visits = append(visits, string(line))
		other := m.Tokens[4].Token // of another root
		forged := publisher[:len(publisher)-6] + flip(publisher[len(publisher)-6:])
		for _, token := range []string{forged, other, "", "a.b.c"} {
			line, _ := json.Marshal(token)
			refusals = append(refusals, string(line))
		}
	}
	url := "ws://" + r.clients + "/room"
	if seen := tokens(t, visits, "visit", url); len(seen) != 12 {
		t.Errorf("%d of 12 publishers were seen", len(seen))
	}
	for i, line := range tokens(t, refusals, "refused", url) {
		if line != `{"refused":true}` {
			t.Errorf("token %d is let in: %s", i, line)
		}
	}
	for _, m := range all {
		if text := r.output(); strings.Contains(text, m.Tokens[0].Token[:40]) || strings.Contains(text, "jwt=ey") {
			t.Fatalf("the log has a token:\n%s", text)
		}
	}
}
