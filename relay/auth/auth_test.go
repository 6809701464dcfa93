package auth

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
)

// noon is when these tests happen, where they are asked.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func newKey(t *testing.T, algorithm, id string) *Key {
	t.Helper()
	k, err := Generate(algorithm, id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// forge signs any payload and header with a key, checked or not.
func forge(t *testing.T, k *Key, header, payload string) string {
	t.Helper()
	private, err := k.signer()
	if err != nil {
		t.Fatal(err)
	}
	signed := encode64([]byte(header)) + "." + encode64([]byte(payload))
	signature, err := k.alg.method.Sign(signed, private)
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + encode64(signature)
}

func header(k *Key) string { return fmt.Sprintf(`{"alg":%q,"kid":%q}`, k.alg.name, k.ID) }

// keyWith is a secret key with changed members; "" removes one.
func keyWith(t *testing.T, changes map[string]string) string {
	t.Helper()
	members := map[string]json.RawMessage{
		"kty": json.RawMessage(`"oct"`), "alg": json.RawMessage(`"HS256"`), "kid": json.RawMessage(`"a"`),
		"key_ops": json.RawMessage(`["sign","verify"]`), "k": quoted(strings.Repeat("QUFB", 11)), // 33 bytes
	}
	for name, value := range changes {
		members[name] = json.RawMessage(value)
		if value == "" {
			delete(members, name)
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatATokenSays(t *testing.T) {
	k := newKey(t, "HS256", "a")
	set, _ := NewKeySet(k)
	for _, row := range []struct{ payload, want string }{
		{`{"root":"room/1","put":"alice","get":""}`, "room/1 | room/1/alice/** | room/1/**"},
		{`{"root":"room","put":["a","b/c"],"get":["d"]}`, "room | room/a/** room/b/c/** | room/d/**"},
		{`{"put":""}`, " | ** | "},
		{`{"get":"/x//y/"}`, " |  | x/y/**"},
		{`{"root":"/r/","put":[],"get":["*"]}`, "r |  | r/*/**"},
		{`{"root":"r","publish":["a","*/cam"],"subscribe":["**","b/**/c"]}`, "r | r/a r/*/cam | r/** r/b/**/c"},
		{`{"publish":[""]}`, " |  | "}, // exactly the root
		{`{"get":"","iss":3,"sub":"x","jti":null,"iat":99999999999,"exp":1893585601,"nbf":1893585600.9}`, " |  | **"},
		{`{"get":"","exp":1893585600.5,"nbf":0}`, `token: claim "exp": it expired at 2030-01-02T12:00:00Z: get a fresh token`},
		{`{"get":"","exp":1893585600}`, `token: claim "exp": it expired at 2030-01-02T12:00:00Z: get a fresh token`},
		{`{"get":"","nbf":1893585601}`, `token: claim "nbf": it is not valid before 2030-01-02T12:00:01Z; the clock here says 2030-01-02T12:00:00Z`},
		{`{"get":"","exp":"1893585601"}`, `token: claim "exp" is not a number of seconds since 1970`},
		{`{"get":"","iat":null}`, `token: claim "iat" is not a number of seconds since 1970`},
		{`{"get":"","nbf":-1}`, `token: claim "nbf" is out of range: want seconds since 1970`},
		{`{"get":"","exp":1e300}`, `token: claim "exp" is out of range: want seconds since 1970`},
		{`{"rooot":"x","get":""}`, `token: claim "rooot" is not known; known: root, put, get, publish, subscribe, exp, nbf, iat, iss, sub, jti`},
		{`{"Root":"x","get":""}`, `token: claim "Root" is not known; known: root, put, get, publish, subscribe, exp, nbf, iat, iss, sub, jti`},
		{`{"root":"x","root":"","get":""}`, `token: the payload has "root" twice`},
		{`{"root":null,"get":""}`, `token: claim "root" is not a string`},
		{`{"root":"a/../b","get":""}`, `token: claim "root": path "a/../b" has a segment ".."`},
		{`{"root":"x"}`, `token: it grants nothing: give it "put" or "get", such as "get": "" to watch everything below its root`},
		{`{"put":[],"get":[]}`, `token: it grants nothing: give it "put" or "get", such as "get": "" to watch everything below its root`},
		{`{"put":"a","subscribe":["b"]}`, `token: claim has "put" or "get" together with "publish" or "subscribe": use one pair`},
		{`{"put":null}`, `token: claim "put" is neither a string nor a list of strings`},
		{`{"put":["a",null]}`, `token: claim "put" has an item that is not a string`},
		{`{"publish":"a"}`, `token: claim "publish" is not a list of strings`},
		{`{"publish":["a/**/b/**"]}`, `token: claim "publish": pattern "a/**/b/**" has more than one "**"`},
		{`{"root":"x","publish":["` + strings.Repeat("a/", 31) + `a"]}`, `token: claim "publish": joined pattern is over the limits of a path`},
		{`["get"]`, `token: the payload is not a JSON object`},
		{`{"get":""} x`, `token: the payload has something behind its JSON object`},
	} {
		c, err := set.Verify(forge(t, k, header(k), row.payload), noon)
		got := textError(err)
		if err == nil {
			got = fmt.Sprintf("%s | %s | %s", c.Root, join(c.Publish), join(c.Subscribe))
		}
		if got != row.want {
			t.Errorf("%s\ngives %s\nwant  %s", row.payload, got, row.want)
		}
	}
}

func join(patterns []model.Pattern) string {
	var texts []string
	for _, p := range patterns {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, " ")
}

func TestATokenIsRefusedForItsForm(t *testing.T) {
	k, other := newKey(t, "HS256", "a"), newKey(t, "HS256", "a")
	set, _ := NewKeySet(k)
	const payload = `{"get":""}`
	good := forge(t, k, header(k), payload)
	pieces := strings.Split(good, ".")
	for _, row := range []struct{ token, want string }{
		{"", "token: it is no signed JWT: it has 1 parts between dots, want 3"},
		{"a.b", "token: it is no signed JWT: it has 2 parts between dots, want 3"},
		{"?.b.c", "token: its header is not base64url"},
		{pieces[0] + "=." + pieces[1] + "." + pieces[2], "token: its header is not base64url"},
		{strings.Repeat("a", MaxToken+1), "token: it has 16385 bytes, more than 16384"},
		{pieces[0] + "." + pieces[1] + ".", `token: its signature is not one of the key "a": it was signed with another key, or changed on its way`},
		{pieces[0] + "." + encode64([]byte(`{"put":""}`)) + "." + pieces[2], `token: its signature is not one of the key "a": it was signed with another key, or changed on its way`},
		{forge(t, other, header(k), payload), `token: its signature is not one of the key "a": it was signed with another key, or changed on its way`},
		{forge(t, k, `{"alg":"none"}`, payload), `token: header "alg": algorithm "none" is not accepted; accepted: HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA`},
		{forge(t, k, `{"kid":"a"}`, payload), `token: header "alg": algorithm "" is not accepted; accepted: HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA`},
		{forge(t, k, `{"alg":"HS384","kid":"a"}`, payload), `token: header "alg" is HS384 and the key "a" is for HS256`},
		{forge(t, k, `{"alg":"HS256","kid":"b"}`, payload), `token: header "kid": no key "b" here: add its public half to the relay's keys, or sign with another one`},
		{forge(t, k, `{"alg":"HS256","kid":7}`, payload), `token: header "kid" is not a string`},
		{forge(t, k, `{"alg":"HS256","kid":"a","crit":["x"]}`, payload), `token: header "crit": it demands extensions that are not known here`},
		{forge(t, k, `{"alg":"HS256","alg":"HS256"}`, payload), `token: its header has "alg" twice`},
		{forge(t, k, `[]`, payload), `token: its header is not a JSON object`},
		{forge(t, k, `{"alg":"HS256"}`, payload), ""}, // the only key needs no name
		{good, ""},
	} {
		_, err := set.Verify(row.token, noon)
		if got := textError(err); got != row.want {
			t.Errorf("%.60s: %s\nwant %s", row.token, got, row.want)
		}
	}
}

func textError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAmongSeveralKeysATokenNamesItsOwn(t *testing.T) {
	a, b := newKey(t, "HS256", "a"), newKey(t, "ES256", "b")
	set, err := NewKeySet(a, b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Verify(forge(t, a, `{"alg":"HS256"}`, `{"get":""}`), noon)
	if want := `token: header "kid" is missing and there are 2 keys here: sign with a key that has a kid`; textError(err) != want {
		t.Errorf("without a kid: %v, want %s", err, want)
	}
	for _, k := range []*Key{a, b} {
		if _, err := set.Verify(forge(t, k, header(k), `{"get":""}`), noon); err != nil {
			t.Errorf("key %s: %v", k.ID, err)
		}
	}
	if _, err := NewKeySet(a, newKey(t, "HS256", "a")); textError(err) != `key "a" is there twice` {
		t.Errorf("two keys of one kid: %v", err)
	}
}

func TestEveryAlgorithmSignsAndVerifies(t *testing.T) {
	for _, algorithm := range Algorithms() {
		k := newKey(t, algorithm, "")
		token, err := k.Sign([]byte(`{"root":"r","put":"a"}`))
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		verifier := k
		if k.alg.kty != "oct" {
			if verifier, err = k.Public(); err != nil || verifier.Private {
				t.Fatalf("%s: public half: %v", algorithm, err)
			}
			if _, err := verifier.Sign([]byte(`{"put":"a"}`)); err == nil {
				t.Errorf("%s: the public half signs", algorithm)
			}
		}
		text, _ := json.Marshal(verifier)
		again, err := ParseKey([]byte(encode64(text)))
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		set, _ := NewKeySet(again)
		if c, err := set.Verify(token, noon); err != nil || join(c.Publish) != "r/a/**" {
			t.Errorf("%s: %+v, %v", algorithm, c, err)
		}
	}
}

func TestWhatIsWrongWithAKeyIsNamed(t *testing.T) {
	rsa, ec, ed := newKey(t, "RS256", "r"), newKey(t, "ES256", "e"), newKey(t, "EdDSA", "d")
	with := func(k *Key, name, value string) string {
		members := map[string]json.RawMessage{}
		text, _ := json.Marshal(k)
		_ = json.Unmarshal(text, &members)
		members[name] = json.RawMessage(value)
		text, _ = json.Marshal(members)
		return string(text)
	}
	for _, row := range []struct{ text, want string }{
		{keyWith(t, nil), ""},
		{keyWith(t, map[string]string{"kty": ""}), ""}, // a secret, as older versions wrote it
		{encode64([]byte(keyWith(t, nil))), ""},
		{"  " + keyWith(t, nil) + "\n", ""},
		{keyWith(t, map[string]string{"k": `"QUFB"`}), `key "a": the secret has 3 bytes, want at least 32`},
		{keyWith(t, map[string]string{"k": ""}), `key "a": "k" is missing`},
		{keyWith(t, map[string]string{"k": `"?"`}), `key "a": "k" is not base64`},
		{keyWith(t, map[string]string{"alg": `"ES256"`}), `key "a": algorithm ES256 needs "kty" "EC", this is "oct"`},
		{keyWith(t, map[string]string{"alg": ""}), `key "a": "alg" is missing`},
		{keyWith(t, map[string]string{"alg": `"none"`}), `key "a": algorithm "none" is not accepted; accepted: HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA`},
		{keyWith(t, map[string]string{"kty": `"RSA"`}), `key "a": algorithm HS256 needs "kty" "oct", this is "RSA"`},
		{keyWith(t, map[string]string{"kty": `""`}), `key "a": algorithm HS256 needs "kty" "oct", this is ""`},
		{keyWith(t, map[string]string{"kid": `"../a"`}), `key "../a": kid "../a" has other characters than letters, digits, - and _`},
		{keyWith(t, map[string]string{"kid": `""`}), `key: kid "" has other characters than letters, digits, - and _`},
		{keyWith(t, map[string]string{"key_ops": ""}), `key "a": "key_ops" is missing: give it the list ["verify"]`},
		{keyWith(t, map[string]string{"key_ops": `"verify"`}), `key "a": "key_ops" is not a list of strings`},
		{keyWith(t, map[string]string{"use": `"enc"`}), `key "a": "use" is not "sig"`},
		{keyWith(t, map[string]string{"scope": `3`}), `key "a": "scope" is not a JSON object`},
		{keyWith(t, map[string]string{"scope": `{"pub":"x"}`}), `key "a": "scope" has an unknown member "pub"`},
		{keyWith(t, map[string]string{"scope": `{"put":"x","publish":["y"]}`}), `key "a": "scope": has "put" or "get" together with "publish" or "subscribe": use one pair`},
		{`{"kid":"a","kid":"b"}`, `key has "kid" twice`},
		{"hello", "key is neither JSON nor base64 of JSON"},
		{"", "key is neither JSON nor base64 of JSON"},
		{strings.Repeat("x", MaxKeyText+1), "key has 65537 bytes, more than 65536"},
		{with(rsa, "e", `"AQ"`), `key "r": "e" is no public exponent: want an odd number from 3 to 2147483647, such as AQAB`},
		{with(rsa, "n", `"AQAB"`), `key "r": the modulus has 17 bits, want 2048 to 8192`},
		{with(ec, "x", `"AQAB"`), `key "e": "x" has 3 bytes, want 32`},
		{with(ec, "y", string(ec.members["x"])), `key "e": "x" and "y" are no point of P-256`},
		{with(ec, "crv", `"P-384"`), `key "e": algorithm ES256 needs "crv" "P-256", this is "P-384"`},
		{with(ed, "x", `"AQAB"`), `key "d": "x" has 3 bytes, want 32`},
		{with(ed, "d", `7`), ""}, // the private half is left unread
	} {
		_, err := ParseKey([]byte(row.text))
		if got := textError(err); got != row.want {
			t.Errorf("%.100s: %s\nwant %s", row.text, got, row.want)
		}
	}
}

func TestAKeyThatMayNotVerifyChecksNothing(t *testing.T) {
	k, err := ParseKey([]byte(keyWith(t, map[string]string{"key_ops": `["sign"]`})))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeySet(k); textError(err) != `key "a": "key_ops" lacks "verify": a key that is to check tokens needs it` {
		t.Errorf("%v", err)
	}
}

func TestAScopeRefusesWhatLiesOutsideAndTrimsNothing(t *testing.T) {
	for _, row := range []struct{ scope, payload, want string }{
		{`{"root":"demo","put":"a","get":""}`, `{"root":"demo","put":"a/b","get":"x"}`, ""},
		{`{"root":"demo","put":"a","get":""}`, `{"root":"demo/a","put":""}`, ""},
		{`{"root":"demo","put":"a","get":""}`, `{"root":"demo","put":["a","b"]}`, `token: it lets its holder publish "demo/b/**", which is outside the scope of the key "a"`},
		{`{"root":"demo","put":"a","get":""}`, `{"get":""}`, `token: it lets its holder subscribe "**", which is outside the scope of the key "a"`},
		{`{"root":"demo","get":""}`, `{"root":"demo","put":"a","get":""}`, `token: it lets its holder publish "demo/a/**", which is outside the scope of the key "a"`},
		{`{"publish":["*/cam"]}`, `{"root":"r","publish":["cam"]}`, ""},
		{`{"publish":["*/cam"]}`, `{"root":"r","put":"cam"}`, `token: it lets its holder publish "r/cam/**", which is outside the scope of the key "a"`},
		{`{}`, `{"get":"x"}`, `token: it lets its holder subscribe "x/**", which is outside the scope of the key "a"`},
	} {
		k, err := ParseKey([]byte(keyWith(t, map[string]string{"scope": row.scope})))
		if err != nil {
			t.Fatal(err)
		}
		set, _ := NewKeySet(k)
		_, err = set.Verify(forge(t, k, header(k), row.payload), noon)
		if got := textError(err); got != row.want {
			t.Errorf("scope %s, token %s: %s\nwant %s", row.scope, row.payload, got, row.want)
		}
		if _, err := k.Sign([]byte(row.payload)); (err == nil) != (row.want == "") {
			t.Errorf("scope %s, token %s: signing gives %v", row.scope, row.payload, err)
		}
	}
}

// newAuthorizer is one with a single key, public rules for "anon" and grants for certificates.
func newAuthorizer(t *testing.T, k *Key) *Authorizer {
	t.Helper()
	text, _ := json.Marshal(k)
	path := filepath.Join(t.TempDir(), "key.jwk")
	writeFile(t, path, text)
	pattern := func(s string) []model.Pattern {
		p, err := model.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return []model.Pattern{p}
	}
	a, err := New(Config{
		Key: path, ClientCA: filepath.Join(t.TempDir(), "none.pem"), CertificatePublish: pattern("cams/*"),
		Public: Rules{Publish: pattern("anon/**"), Subscribe: pattern("anon/**")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheRequestedPathNarrowsAGrant(t *testing.T) {
	k := newKey(t, "HS256", "a")
	a := newAuthorizer(t, k)
	token := func(payload string) string { return "?jwt=" + forge(t, k, header(k), payload) }
	room := token(`{"root":"room/1","put":"alice","get":""}`)
	far := x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
	for _, row := range []struct {
		path   string
		cert   bool
		want   string // root | publish | subscribe | tier
		status int
		errs   string
	}{
		{"/room/1" + room, false, "room/1 | room/1/alice/** | room/1/** | token", 0, ""},
		{"//room/1/" + room, false, "room/1 | room/1/alice/** | room/1/** | token", 0, ""},
		{"/room/1/alice" + room, false, "room/1/alice | room/1/alice/** | room/1/** | token", 0, ""},
		{"/room/1/bob" + room, false, "room/1/bob |  | room/1/** | token", 0, ""}, // one role is lost
		{"/room" + room, false, "room | room/1/alice/** | room/1/** | token", 0, ""},
		{room, false, " | room/1/alice/** | room/1/** | token", 0, ""},
		{"/room/12" + room, false, "", 403, `token: its root "room/1" does not fit the requested path "room/12": connect to a path at, above or below its root`},
		{"/roo" + room, false, "", 403, `token: its root "room/1" does not fit the requested path "roo": connect to a path at, above or below its root`},
		{"/r/b" + token(`{"root":"r","put":"a"}`), false, "", 403, `token: it grants nothing at or below the requested path "r/b"`},
		{"/r/a/x" + token(`{"root":"r","publish":["a"]}`), false, "", 403, `token: it grants nothing at or below the requested path "r/a/x"`},
		{"/anon/x", false, "anon/x | anon/** | anon/** | public", 0, ""},
		{"", false, " | anon/** | anon/** | public", 0, ""},
		{"/secret", false, "", 401, `no credential, and nothing at or below path "secret" is public: connect with a token (?jwt=)`},
		{"/anon?jwt=", false, "", 401, "the token (?jwt=) is empty: leave it out to connect without one"},
		{"/anon?jwt=x", false, "", 401, "token: it is no signed JWT: it has 1 parts between dots, want 3"},
		{"/room/1" + room + "&jwt=x", false, "", 401, "two different tokens (?jwt=) at once: present one of them"},
		{"/room/1" + room + "&" + room[1:], false, "room/1 | room/1/alice/** | room/1/** | token", 0, ""},
		{"/room/1" + room, true, "", 401, "a token and a client certificate at once: present one of them"},
		{"/", true, " | cams/* |  | certificate", 0, ""},
		{"/cams/7", true, "cams/7 | cams/* |  | certificate", 0, ""},
		{"/anon", true, "", 403, `client certificate: auth.mtlsPublish and auth.mtlsSubscribe grant nothing at or below the requested path "anon"`},
		{"/anon/../x", false, "", 401, `request path: path "/anon/../x" has a segment ".."`},
		{"/anon/%2e%2e/x", false, "", 401, `request path: path "/anon/../x" has a segment ".."`},
		{"/%zz", false, "", 401, `request path: "/%zz" is no percent-encoding`},
		{"/anon?%zz", false, "", 401, "the query of the request cannot be read"},
	} {
		r := Request{Path: row.path}
		if row.cert {
			r.Certificates = []*x509.Certificate{&far}
		}
		g, err := a.Authorize(t.Context(), r)
		if err != nil {
			if err.Error() != row.errs || Status(err) != row.status {
				t.Errorf("%.40s: %d %v\nwant %d %s", row.path, Status(err), err, row.status, row.errs)
			}
			continue
		}
		if got := fmt.Sprintf("%s | %s | %s | %s", g.Root, join(g.Publish), join(g.Subscribe), g.Tier); got != row.want || row.errs != "" {
			t.Errorf("%.40s: %s\nwant %s%s", row.path, got, row.want, row.errs)
		}
	}
}

func TestAGrantEndsWithItsCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKey(t, "HS256", "a")
		a := newAuthorizer(t, k)
		end := time.Now().Add(time.Hour)
		request := Request{Path: "?jwt=" + forge(t, k, header(k), fmt.Sprintf(`{"get":"","exp":%d.7}`, end.Unix()))}
		g, err := a.Authorize(t.Context(), request)
		if err != nil || !g.Expires.Equal(end.Truncate(time.Second)) {
			t.Errorf("the token's grant ends %v, %v, want %v", g.Expires, err, end)
		}
		leaf := &x509.Certificate{NotAfter: end}
		g, err = a.Authorize(t.Context(), Request{Certificates: []*x509.Certificate{leaf}})
		if err != nil || !g.Expires.Equal(end) {
			t.Errorf("the certificate's grant ends %v, %v, want %v", g.Expires, err, end)
		}
		advance(time.Hour)
		if _, err := a.Authorize(t.Context(), request); err == nil || !strings.Contains(err.Error(), `claim "exp"`) {
			t.Errorf("at the second of exp: %v", err)
		}
		if _, err := a.Authorize(t.Context(), Request{Certificates: []*x509.Certificate{leaf}}); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("with an expired certificate: %v", err)
		}
	})
}

// advance lets fake time pass.
func advance(d time.Duration) { <-time.After(d) }

func TestNobodyGetsInWithoutARule(t *testing.T) {
	_, err := New(Config{ClientCA: "ca.pem"})
	if err == nil {
		t.Fatal("an authorizer that lets nobody in is made")
	}
	p, _ := model.ParsePattern("x")
	a, err := New(Config{Public: Rules{Subscribe: []model.Pattern{p}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Authorize(t.Context(), Request{Path: "/x?jwt=a.b.c"})
	if want := "token: this relay has no keys to check tokens with: set auth.key, auth.keyDirectory or auth.jwks, or connect without a token"; textError(err) != want {
		t.Errorf("a token without keys: %v, want %s", err, want)
	}
	if _, err := New(Config{JWKS: "http://example.com/keys"}); err == nil {
		t.Error("keys over plain HTTP are accepted")
	}
	var refusal *Error
	if _, err := a.Authorize(t.Context(), Request{Path: "/y"}); !errors.As(err, &refusal) || refusal.Forbidden {
		t.Errorf("without anything public there: %v", err)
	}
}

// logLines are collected lines of a log.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// logged is a log and its lines.
func logged() (*slog.Logger, *logLines) {
	lines := &logLines{}
	return slog.New(slog.NewTextHandler(lines, nil)), lines
}
