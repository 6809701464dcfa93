package auth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kids are the names of the keys in use.
func kids(a *Authorizer) string {
	var out []string
	for _, k := range a.keys.Load().keys {
		out = append(out, k.ID)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func text(t *testing.T, k *Key) []byte {
	t.Helper()
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// following is an authorizer that runs inside a bubble, with its log.
func following(t *testing.T, cfg Config) (*Authorizer, func() string) {
	t.Helper()
	log, lines := logged()
	cfg.Log = log
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return a, func() string {
		synctest.Wait()
		return lines.String()
	}
}

// pass lets time pass and waits for what it starts.
func pass(d time.Duration) {
	advance(d)
	synctest.Wait()
}

func TestADirectoryOfKeysIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a1, b1 := newKey(t, "HS256", "a"), newKey(t, "HS256", "b")
		writeFile(t, filepath.Join(dir, "a.jwk"), text(t, a1))
		writeFile(t, filepath.Join(dir, "README"), []byte("not a key"))
		a, lines := following(t, Config{KeyDirectory: dir})
		if got := kids(a); got != "a" {
			t.Fatalf("the keys are %q, want a", got)
		}
		for _, step := range []struct {
			name   string
			change func()
			want   string
			logs   string
		}{
			{"one more", func() { writeFile(t, filepath.Join(dir, "b.jwk"), text(t, b1)) }, "a b", "keys=2"},
			{"one that is no key", func() { writeFile(t, filepath.Join(dir, "c.jwk"), []byte("{")) }, "a b", "c.jwk: key is not"},
			{"a good one gets bad", func() { writeFile(t, filepath.Join(dir, "b.jwk"), []byte("oops!")) }, "a b", "b.jwk: key is neither JSON nor base64 of JSON"},
			{"another kid than the file's", func() { writeFile(t, filepath.Join(dir, "d.jwk"), text(t, newKey(t, "HS256", "e"))) }, "a b", `d.jwk: its kid is \"e\": the file must be called e.jwk`},
			{"gone", func() { _ = os.Remove(filepath.Join(dir, "a.jwk")) }, "b", ""},
			{"all gone", func() {
				for _, name := range []string{"b", "c", "d"} {
					_ = os.Remove(filepath.Join(dir, name+".jwk"))
				}
			}, "", "no file KID.jwk in the directory"},
			{"back", func() { writeFile(t, filepath.Join(dir, "a.jwk"), text(t, a1)) }, "a", "keys=1"},
		} {
			before := len(lines())
			step.change()
			pass(fileInterval)
			pass(fileInterval)
			if got, log := kids(a), lines()[before:]; got != step.want || !strings.Contains(log, step.logs) {
				t.Errorf("%s: the keys are %q, want %q; the log has\n%swant %q", step.name, got, step.want, log, step.logs)
			}
		}
		if strings.Contains(lines(), string(text(t, a1)[8:40])) {
			t.Error("the log has key material")
		}
	})
}

func TestAKeyFileIsTakenWhenTwoReadingsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key.jwk")
		a, lines := following(t, Config{Key: path})
		if !strings.Contains(lines(), "no verification key, so tokens are refused") {
			t.Errorf("a missing file is not reported:\n%s", lines())
		}
		pass(10 * fileInterval)
		if n := strings.Count(lines(), "level=ERROR"); n != 1 {
			t.Errorf("a missing file is reported %d times, want once", n)
		}
		writeFile(t, path, text(t, newKey(t, "ES256", "one")))
		pass(2 * fileInterval)
		if got := kids(a); got != "one" || !strings.Contains(lines(), "it has its private half, which is not needed here") {
			t.Fatalf("the keys are %q, want one, and a warning\n%s", got, lines())
		}
		half := text(t, newKey(t, "ES256", "two"))
		writeFile(t, path, half[:20])
		pass(fileInterval)
		writeFile(t, path, half)
		pass(fileInterval)
		if got := kids(a); got != "one" {
			t.Errorf("after one reading the keys are %q, want one", got)
		}
		pass(fileInterval)
		if got := kids(a); got != "two" || strings.Contains(lines(), "key is not valid JSON") {
			t.Errorf("after two readings the keys are %q, want two, and nothing of the half\n%s", got, lines())
		}
		_ = os.Remove(path)
		pass(3 * fileInterval)
		if got := kids(a); got != "two" || !strings.Contains(lines(), "the keys before stay") {
			t.Errorf("without the file the keys are %q, want two\n%s", got, lines())
		}
	})
}

func TestAJWKSetLeavesOutWhatItCannotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "set.json")
		good, signer := newKey(t, "EdDSA", "good"), newKey(t, "HS256", "signer")
		public, _ := good.Public()
		signer.members["key_ops"] = json.RawMessage(`["sign"]`)
		writeFile(t, path, []byte(`{"keys":[`+string(text(t, public))+`,{"kty":"oct","kid":"short","alg":"HS256","key_ops":["verify"],"k":"AA"},`+string(text(t, signer))+`],"x":1}`))
		a, lines := following(t, Config{JWKS: path})
		if got := kids(a); got != "good" || !strings.Contains(lines(), "number 2 of the set is left out") || !strings.Contains(lines(), "number 3 of the set is left out") {
			t.Errorf("the keys are %q, want good\n%s", got, lines())
		}
		for what, want := range map[string]string{
			string(text(t, public)):              `no list \"keys\": is it a single key? then it belongs to auth.key`,
			`{"keys":[]}`:                        "has no key that can be used",
			`{"keys":[{"kty":"DH"}]}`:            "has no key that can be used",
			"nothing":                            "is not a JSON object",
			strings.Repeat("[", 100000) + "{}":   "is not a JSON object",
			`{"keys":[` + strings.Repeat("[", 9): "is not valid JSON",
		} {
			writeFile(t, path, []byte(what))
			pass(2 * fileInterval)
			if got := kids(a); got != "good" || !strings.Contains(lines(), want) {
				t.Errorf("%.20s: the keys are %q, want good, and %q\n%s", what, got, want, lines())
			}
		}
	})
}

func TestOfTwoKeysWithOneNameTheFirstSourceCounts(t *testing.T) {
	dir := t.TempDir()
	first, second := newKey(t, "HS256", "a"), newKey(t, "HS256", "a")
	writeFile(t, filepath.Join(dir, "one"), text(t, first))
	writeFile(t, filepath.Join(dir, "a.jwk"), text(t, second))
	log, lines := logged()
	a, err := New(Config{Key: filepath.Join(dir, "one"), KeyDirectory: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.keys.Load().Verify(forge(t, first, header(first), `{"get":""}`), noon); err != nil {
		t.Errorf("the first source's key: %v", err)
	}
	if !strings.Contains(lines.String(), `key \"a\" is there twice`) {
		t.Errorf("the second is not reported:\n%s", lines)
	}
}

// keyServer answers with a JWK Set, or with a status.
type keyServer struct {
	answer func(w http.ResponseWriter)
}

func (s *keyServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) { s.answer(w) }

// newURLSource is a source that asks a server with a certificate of its own.
func newURLSource(t *testing.T, s *keyServer) *Authorizer {
	t.Helper()
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	log, _ := logged()
	a, err := New(Config{JWKS: server.URL + "/keys?secret=1", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	t.Cleanup(transport.CloseIdleConnections)
	a.client.Transport = transport
	return a
}

func TestAURLOfKeysKeepsTheLastGoodOnes(t *testing.T) {
	set := func(id string) func(http.ResponseWriter) {
		body := `{"keys":[` + string(text(t, newKey(t, "HS256", id))) + `]}`
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(body)) }
	}
	s := &keyServer{answer: set("one")}
	a := newURLSource(t, s)
	for _, step := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   string
	}{
		{"good", set("one"), "one"},
		{"another", set("two"), "two"},
		{"an error", func(w http.ResponseWriter) { w.WriteHeader(503) }, "two"},
		{"no set", func(w http.ResponseWriter) { _, _ = w.Write([]byte("sorry")) }, "two"},
		{"too long", func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxSet+1)) }, "two"},
		{"away from https", func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1/"); w.WriteHeader(302) }, "two"},
		{"good again", set("three"), "three"},
	} {
		s.answer = step.answer
		a.loadRemote(t.Context())
		if got := kids(a); got != step.want {
			t.Errorf("%s: the keys are %q, want %q", step.name, got, step.want)
		}
	}
}

func TestATokenWaitsForTheFirstAnswerOfTheURL(t *testing.T) {
	k := newKey(t, "HS256", "a")
	s := &keyServer{answer: func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[` + string(text(t, k)) + `]}`)) }}
	a := newURLSource(t, s)
	request := Request{Path: "/?jwt=" + forge(t, k, header(k), `{"get":""}`)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Authorize(ctx, request); err == nil {
		t.Error("a token is judged before the keys are known")
	}
	a.loadRemote(t.Context())
	if _, err := a.Authorize(ctx, request); err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("with the keys: %v", err)
	}
	if _, err := a.Authorize(t.Context(), request); err != nil {
		t.Errorf("with the keys: %v", err)
	}
}

func TestAReloadAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key.jwk")
		a, _ := following(t, Config{Key: path})
		synctest.Wait()
		writeFile(t, path, text(t, newKey(t, "HS256", "a")))
		a.Reload()
		synctest.Wait()
		if got := kids(a); got != "a" {
			t.Errorf("the keys are %q, want a", got)
		}
	})
}
