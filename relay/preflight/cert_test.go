package preflight

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// noon is the time that the certificates of the tests are judged by.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// newKey makes a private key and its PEM form.
func newKey(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// newCert makes a self-signed certificate for the names, valid from an hour
// before noon for so long, and returns its DER and PEM forms.
func newCert(t *testing.T, key *ecdsa.PrivateKey, from time.Time, valid time.Duration, names ...string) (der, text []byte) {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: from, NotAfter: from.Add(valid),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// newDir makes a certificate directory; nil leaves a file out.
func newDir(t *testing.T, cert, key []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "web-tls")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestACertificateIsDescribed(t *testing.T) {
	key, keyPEM := newKey(t)
	der, certPEM := newCert(t, key, noon.Add(-time.Hour), 24*time.Hour, "a.example", "b.example")
	got := inspect(newDir(t, certPEM, keyPEM), noon)
	sum := sha256.Sum256(der)
	if got.Secret != "web-tls" || got.Err != "" || got.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("certificate is %+v, want web-tls without fault and its hash", got)
	}
	if want := []string{"a.example", "b.example", "192.0.2.1"}; !slices.Equal(got.Names, want) {
		t.Errorf("names are %v, want %v", got.Names, want)
	}
	if want := time.Date(2026, 6, 2, 11, 0, 0, 0, time.UTC); got.NotAfter == nil || !got.NotAfter.Equal(want) {
		t.Errorf("it ends at %v, want %v", got.NotAfter, want)
	}
}

func TestAtMostEightNamesAreTold(t *testing.T) {
	key, keyPEM := newKey(t)
	var names []string
	for i := range 20 {
		names = append(names, "n"+strconv.Itoa(i)+".example")
	}
	_, certPEM := newCert(t, key, noon.Add(-time.Hour), 24*time.Hour, names...)
	if got := inspect(newDir(t, certPEM, keyPEM), noon).Names; !slices.Equal(got, names[:8]) {
		t.Errorf("names are %v, want the first eight", got)
	}
}

func TestEachFaultOfACertificateHasItsReason(t *testing.T) {
	key, keyPEM := newKey(t)
	_, otherPEM := newKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	_, good := newCert(t, key, noon.Add(-time.Hour), 2*time.Hour)
	_, past := newCert(t, key, noon.Add(-2*time.Hour), time.Hour)
	_, future := newCert(t, key, noon.Add(time.Hour), time.Hour)
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})
	tests := []struct {
		name      string
		cert, key []byte
		want      Reason
	}{
		{"good", good, keyPEM, ""},
		{"no files", nil, nil, ReasonSecretMissing},
		{"no key file", good, nil, ReasonSecretMissing},
		{"no certificate file", nil, keyPEM, ReasonSecretMissing},
		{"empty files", []byte{}, []byte{}, ReasonParseError},
		{"no PEM", []byte("hello"), keyPEM, ReasonParseError},
		{"PEM without DER", broken, keyPEM, ReasonParseError},
		{"the key in the certificate's place", keyPEM, keyPEM, ReasonParseError},
		{"a key that is none", good, []byte("hello"), ReasonParseError},
		{"another key", good, otherPEM, ReasonKeyMismatch},
		{"a key of another type", good, rsaPEM, ReasonKeyMismatch},
		{"expired", past, keyPEM, ReasonExpired},
		{"not yet valid", future, keyPEM, ReasonNotYetValid},
	}
	for _, tt := range tests {
		if got := inspect(newDir(t, tt.cert, tt.key), noon).Err; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestADirectoryThatIsNotThereIsAMissingSecret(t *testing.T) {
	if got := inspect("/nonexistent/web", noon); got.Err != ReasonSecretMissing || got.Secret != "web" {
		t.Errorf("report is %+v, want web: SecretMissing", got)
	}
}
