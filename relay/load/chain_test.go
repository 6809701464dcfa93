package load

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakeRelay is a program that notes its arguments, one line for each start, and says
// where it is: its peer port is the number of the line.
const fakeRelay = `#!/bin/sh
echo "$@" >> "$0.args"
echo "listening udp=127.0.0.1:1 tcp=127.0.0.1:2 status=127.0.0.1:3 peer=127.0.0.1:$(wc -l < "$0.args" | tr -d ' ')"
exec tail -f /dev/null
`

func TestAChainIsRelaysWithOneKeyEachAPeerOfTheOneBefore(t *testing.T) {
	program := filepath.Join(t.TempDir(), "relay")
	if err := os.WriteFile(program, []byte(fakeRelay), 0o700); err != nil {
		t.Fatal(err)
	}
	chain, err := StartChain(t.Context(), StartOptions{Command: []string{program, "serve"}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program + ".args")
	if err != nil {
		t.Fatal(err)
	}
	keyed := "serve --tls-mode Files --tls-directories " + chain.directory + " --cluster-listen 127.0.0.1:0"
	want := []string{keyed, keyed + " --cluster-peers dns+https://127.0.0.1:1", keyed + " --cluster-peers dns+https://127.0.0.1:2"}
	if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
		t.Errorf("started were\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(chain.directory, "tls.crt"), filepath.Join(chain.directory, "tls.key")); err != nil {
		t.Errorf("the key cannot be used: %v", err)
	}
	for i, r := range chain.Relays {
		if r.Target.URL != "https://127.0.0.1:2" || len(r.Target.CertificateHashes) != 1 || r.Status != "127.0.0.1:3" {
			t.Errorf("relay %d is at %+v with status at %q", i, r.Target, r.Status)
		}
	}
	chain.End()
	if _, err := os.Stat(chain.directory); !os.IsNotExist(err) {
		t.Errorf("the key is still there: %v", err)
	}
}

func TestOneRelayIsStartedAsItIs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "relay")
	if err := os.WriteFile(program, []byte(fakeRelay), 0o700); err != nil {
		t.Fatal(err)
	}
	chain, err := StartChain(t.Context(), StartOptions{Command: []string{program, "serve"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer chain.End()
	text, _ := os.ReadFile(program + ".args")
	if string(text) != "serve\n" || chain.Relays[0].Target.URL != "http://127.0.0.1:2" {
		t.Errorf("started with %q, at %q", text, chain.Relays[0].Target.URL)
	}
}
