package auth

import (
	"encoding/json"
	"testing"
	"time"
)

func FuzzVerify(f *testing.F) {
	k, err := Generate("HS256", "a")
	if err != nil {
		f.Fatal(err)
	}
	set, _ := NewKeySet(k)
	for _, payload := range []string{`{"root":"r","put":"a","exp":99999999999}`, `{"publish":["*"],"subscribe":["**"]}`, `{"get":[]}`, `[]`, `{"a":{"b":[1,2]}}`} {
		f.Add(`{"alg":"HS256","kid":"a"}`, payload, "x")
	}
	f.Add(`{"alg":"none"}`, `{"get":""}`, "a.b.c")
	f.Fuzz(func(t *testing.T, header, payload, raw string) {
		_, _ = set.Verify(raw, time.Unix(0, 0))
		token := encode64([]byte(header)) + "." + encode64([]byte(payload)) + "."
		if c, err := set.Verify(token, time.Unix(0, 0)); err == nil {
			t.Fatalf("%s is accepted without a signature: %+v", token, c)
		}
		signed, err := k.Sign([]byte(payload))
		if err != nil {
			return
		}
		c, err := parseClaims([]byte(payload))
		if err != nil || len(c.Publish)+len(c.Subscribe) == 0 {
			t.Fatalf("%s is signed and grants nothing: %v", payload, err)
		}
		if _, err := set.Verify(signed, c.NotBefore); err != nil && c.valid(c.NotBefore) == nil && len(signed) <= MaxToken {
			t.Fatalf("%s is signed and refused: %v", payload, err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, algorithm := range Algorithms() {
		k, err := Generate(algorithm, "a")
		if err != nil {
			f.Fatal(err)
		}
		text, _ := json.Marshal(k)
		f.Add(text)
		f.Add([]byte(encode64(text)))
		f.Add([]byte(`{"keys":[` + string(text) + `]}`))
	}
	f.Add([]byte(`{"alg":"HS256","k":"AAAA","key_ops":["verify"],"scope":{"root":"a","publish":["**"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, _ = parseSet(keyText{"", text})
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		written, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseKey(written)
		if err != nil || again.ID != k.ID || again.Algorithm() != k.Algorithm() {
			t.Fatalf("%s is read and written as %s, which gives %v", text, written, err)
		}
		if k.alg.kty != "oct" {
			if public, err := k.Public(); err == nil && public.Private {
				t.Fatalf("the public half of %s has a private one", text)
			}
		}
		_, _ = k.Sign([]byte(`{"get":""}`)) // a bad private half is an error, no panic
	})
}
