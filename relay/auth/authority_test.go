package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
)

// newAuthorityFile makes the PEM text of an authority.
func newAuthorityFile(t *testing.T, name string) ([]byte, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert
}

func TestTheAuthoritiesOfEachHandshakeAreThoseOfNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	p, _ := model.ParsePattern("x")
	log, lines := logged()
	a, err := New(Config{ClientCA: path, CertificatePublish: []model.Pattern{p}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	oneText, one := newAuthorityFile(t, "one")
	twoText, two := newAuthorityFile(t, "two")
	cfg := a.TLS(&tls.Config{NextProtos: []string{"a"}})
	accepted := func() (names []string) {
		now, err := cfg.GetConfigForClient(&tls.ClientHelloInfo{})
		if err != nil || now.ClientAuth != tls.VerifyClientCertIfGiven || now.ClientCAs == nil || now.NextProtos[0] != "a" {
			t.Fatalf("a handshake has %+v, %v", now, err)
		}
		for name, cert := range map[string]*x509.Certificate{"one": one, "two": two} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: now.ClientCAs}); err == nil {
				names = append(names, name)
			}
		}
		return names
	}
	if got := accepted(); len(got) != 0 {
		t.Errorf("without a file %v are accepted, want none: not the system's either", got)
	}
	for _, step := range []struct{ text, want string }{
		{string(oneText), "one"},
		{"not PEM", "one"},
		{string(twoText), "two"},
	} {
		writeFile(t, path, []byte(step.text))
		a.loadLocal()
		a.loadLocal()
		if got := strings.Join(accepted(), " "); got != step.want {
			t.Errorf("after %.20q %q are accepted, want %q", step.text, got, step.want)
		}
	}
	if n := strings.Count(lines.String(), "it has no certificate in PEM form"); n != 1 {
		t.Errorf("the bad file is reported %d times, want once\n%s", n, lines)
	}
}

func TestAChosenTLSConfigurationIsAskedForCertificatesToo(t *testing.T) {
	p, _ := model.ParsePattern("x")
	a, err := New(Config{ClientCA: "/nonexistent", CertificatePublish: []model.Pattern{p}})
	if err != nil {
		t.Fatal(err)
	}
	other := &tls.Config{ServerName: "other"}
	failed := errors.New("no")
	for _, row := range []struct {
		chosen *tls.Config
		err    error
		want   string
	}{{other, nil, "other"}, {nil, nil, "base"}, {nil, failed, ""}} {
		cfg := a.TLS(&tls.Config{ServerName: "base", GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return row.chosen, row.err }})
		got, err := cfg.GetConfigForClient(&tls.ClientHelloInfo{})
		if !errors.Is(err, row.err) || err == nil && (got.ServerName != row.want || got.ClientAuth != tls.VerifyClientCertIfGiven) {
			t.Errorf("chosen %v, %v: %+v, %v", row.chosen, row.err, got, err)
		}
	}
	plain := &tls.Config{}
	none, err := New(Config{Key: "/nonexistent"})
	if err != nil || none.TLS(plain) != plain {
		t.Errorf("without authorities the configuration is changed: %v", err)
	}
}
