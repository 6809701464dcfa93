package config

import (
	"slices"
	"strings"
	"testing"
)

// guarded is a relay that lets in who has a token.
func guarded() Config {
	c := valid()
	c.Auth = Auth{Mode: AuthJWT, KeyDirectory: "/keys"}
	return c
}

func TestEveryKeyOfAccessIsChecked(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for _, row := range []struct {
		key       string
		good, bad []string
	}{
		{"auth.publicPrefixes", []string{"", "/", "demo", "a/b,c", "a*b"}, []string{"a/../b", "a,a", long, strings.Repeat("a/", 33), strings.Repeat("a,", 64) + "a"}},
		{"auth.publicPublish", []string{"", "**", "*/cam", "a/**/b", "a/**,b"}, []string{"a*", "**/a/**", "a/.", "***", long}},
		{"auth.publicSubscribe", []string{"lobby/**"}, []string{"lobby*"}},
		{"auth.key", []string{"", "/a/b.jwk"}, []string{"a,b", "a\nb"}},
		{"auth.keyDirectory", []string{"/keys"}, []string{"a,b"}},
		{"auth.jwks", []string{"/set.json", "https://example.com/keys?x=1"}, []string{"http://example.com/keys", "https://", "https://user:word@example.com/", "file:///set"}},
		{"auth.clientCA", []string{""}, []string{"a,b"}},
		{"auth.mtlsPublish", []string{""}, []string{"a*"}},
		{"auth.mtlsSubscribe", []string{""}, []string{"a*"}},
	} {
		for _, text := range slices.Concat(row.good, row.bad) {
			base := guarded()
			_, err := Source{Base: &base, Flags: map[string]string{row.key: text}}.load(nil, nil)
			if good := slices.Contains(row.good, text); (err == nil) != good {
				t.Errorf("%s: %.60q is accepted: %v, want %v (%v)", row.key, text, err == nil, good, err)
			}
			if err != nil && (len(AsFaults(err)) != 1 || AsFaults(err)[0].Key != row.key) {
				t.Errorf("%s: %.60q gives not one fault of that key: %v", row.key, text, err)
			}
		}
	}
}

func TestARelayThatLetsNobodyInDoesNotStart(t *testing.T) {
	for _, row := range []struct {
		auth string
		want []string
	}{
		{"mode: JWT", []string{"relay.yaml:1: auth.mode: JWT lets nobody in: set auth.key, auth.keyDirectory or auth.jwks, a public rule such as auth.publicPrefixes, or auth.clientCA"}},
		{"mode: JWT, publicPrefixes: []", []string{"relay.yaml:1: auth.mode: JWT lets nobody in: set auth.key, auth.keyDirectory or auth.jwks, a public rule such as auth.publicPrefixes, or auth.clientCA"}},
		{"mode: JWT, clientCA: ca.pem", []string{"relay.yaml:1: auth.clientCA: needs auth.mtlsPublish or auth.mtlsSubscribe: without either a client certificate may do nothing"}},
		{"mode: JWT, key: a, mtlsPublish: [a]", []string{"relay.yaml:1: auth.mtlsPublish: needs auth.clientCA: without it no client certificate is asked for"}},
		{"mode: JWT, clientCA: ca.pem, mtlsSubscribe: ['**']", nil},
		{"mode: JWT, publicSubscribe: [a]", nil},
		{"mode: JWT, jwks: set.json", nil},
		{"mode: None, key: a, publicPrefixes: [b]", []string{
			"relay.yaml:1: auth.publicPrefixes: has no effect when auth.mode is None: set auth.mode to JWT, or leave this out",
			"relay.yaml:1: auth.key: has no effect when auth.mode is None: set auth.mode to JWT, or leave this out",
		}},
	} {
		_, err := Parse("relay.yaml", []byte("auth: {"+row.auth+"}\ntls: {mode: SelfSigned}\n"))
		if row.want == nil && err == nil {
			continue
		}
		wantFaults(t, err, row.want...)
	}
}

func TestWhoMayEnterSurvivesPrintingAndSplitsByClass(t *testing.T) {
	c := guarded()
	c.Auth = Auth{
		Mode: AuthJWT, PublicPrefixes: []string{"/", "a b"}, PublicPublish: []string{"**"}, PublicSubscribe: []string{"é/*"},
		Key: "k e y", KeyDirectory: "/keys", JWKS: "https://example.com/", ClientCA: "ca.pem", MTLSPublish: []string{"x"}, MTLSSubscribe: []string{"y/**"},
	}
	restart, live := c.MarshalFiles()
	loaded, err := Source{File: "a", LiveFile: "b"}.load(restart, live)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, restart, live)
	}
	for _, k := range Keys() {
		if k.Value(loaded.Config) != k.Value(c.filled()) {
			t.Errorf("%s is %q, printed and read back %q", k.Name, k.Value(c.filled()), k.Value(loaded.Config))
		}
	}
	if got := loaded.Config.Live().Auth; !slices.Equal(got.PublicPrefixes, []string{"/", "a b"}) || !slices.Equal(got.PublicPublish, []string{"**"}) {
		t.Errorf("the live part is %+v", got)
	}
	if text := string(live); !strings.Contains(text, "publicPrefixes") || strings.Contains(text, "keyDirectory") || strings.Contains(text, "mode") {
		t.Errorf("the live file is\n%s", text)
	}
}
