package relay

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// putPair writes tls.crt and tls.key for a host into a directory.
func putPair(t *testing.T, directory string) tls.Certificate {
	t.Helper()
	pair, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, directory, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	putFile(t, directory, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))
	return pair
}

func putFile(t *testing.T, directory, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(directory, name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, directory, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(directory, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newCertificatesIn(t *testing.T, directories ...string) (*certificates, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	c, err := newCertificates(config.TLS{Mode: config.Files, Directories: directories}, slog.New(slog.NewTextHandler(log, nil)), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func wantServed(t *testing.T, c *certificates, want tls.Certificate) {
	t.Helper()
	got, err := c.get(&tls.ClientHelloInfo{})
	if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
		t.Fatalf("another certificate is served (%v)", err)
	}
}

func TestASelfSignedCertificateFitsWhatBrowsersAcceptByItsHash(t *testing.T) {
	now := time.Now()
	pair, err := selfSigned(now)
	if err != nil {
		t.Fatal(err)
	}
	leaf := pair.Leaf
	if life := leaf.NotAfter.Sub(leaf.NotBefore); life != 13*24*time.Hour {
		t.Errorf("it is valid for %v, want 13 days", life)
	}
	if before := now.Sub(leaf.NotBefore); before < time.Hour || before > time.Hour+time.Second {
		t.Errorf("it is valid from %v ago, want one hour", before)
	}
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve.Params().Name != "P-256" {
		t.Errorf("its key is %T, want ECDSA P-256", leaf.PublicKey)
	}
	if err := leaf.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
}

func TestASelfSignedCertificateIsRenewedAtHalfItsLife(t *testing.T) {
	c, err := newCertificates(config.TLS{Mode: config.SelfSigned}, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := c.hash()
	leaf := c.served[0].pair.Leaf
	c.refresh(leaf.NotBefore.Add(156*time.Hour - time.Second))
	if now, _ := c.hash(); now != first {
		t.Fatal("it was renewed before 6.5 days")
	}
	c.refresh(leaf.NotBefore.Add(156 * time.Hour))
	if now, _ := c.hash(); now == first {
		t.Fatal("it was not renewed after 6.5 days")
	}
}

func TestAChangedPairIsServedAndABadOneKeepsTheOneBefore(t *testing.T) {
	directory := t.TempDir()
	first := putPair(t, directory)
	c, log := newCertificatesIn(t, directory)
	counted := map[string]int{}
	c.reloads = func(result string) { counted[result]++ }
	wantServed(t, c, first)
	second := putPair(t, directory)
	c.load()
	wantServed(t, c, second)
	c.load() // nothing changed
	putFile(t, directory, "tls.crt", []byte("no PEM"))
	c.load()
	c.load() // it was said
	wantServed(t, c, second)
	if counted["ok"] != 1 || counted["rejected"] != 1 {
		t.Errorf("counted %v, want one good and one bad", counted)
	}
	if !bytes.Contains(log.Bytes(), []byte(directory)) || !bytes.Contains(log.Bytes(), []byte("stays in service")) {
		t.Errorf("the log does not say what and where: %s", log)
	}
}

func TestAMissingPairIsWaitedFor(t *testing.T) {
	directory := t.TempDir()
	c, _ := newCertificatesIn(t, directory)
	if _, err := c.get(&tls.ClientHelloInfo{}); err == nil || c.loaded() {
		t.Fatal("a certificate is served from an empty directory")
	}
	pair := putPair(t, directory)
	c.load()
	wantServed(t, c, pair)
}

func TestTheServerNameChoosesAmongDirectories(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	first := putPair(t, one)
	second := putPair(t, two)
	c, _ := newCertificatesIn(t, one, two)
	c.served[0].pair.Leaf = &x509.Certificate{DNSNames: []string{"one.example"}}
	c.served[1].pair.Leaf = &x509.Certificate{DNSNames: []string{"two.example"}}
	for name, want := range map[string]tls.Certificate{"one.example": first, "two.example": second, "other.example": first, "": first} {
		got, err := c.get(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
			t.Errorf("%q gets another certificate (%v)", name, err)
		}
	}
}
