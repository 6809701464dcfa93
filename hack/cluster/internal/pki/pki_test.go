package pki

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func newPKI(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	err := Write(dir, Names{
		Node:    "node-1",
		Address: netip.MustParseAddr("192.0.2.7"),
		Service: netip.MustParseAddr("10.96.0.1"),
		Port:    6443,
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func readCertificate(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheAPIServerIsNamedByAddressServiceAndLoopback(t *testing.T) {
	c := readCertificate(t, newPKI(t), "apiserver")
	for _, name := range []string{"192.0.2.7", "10.96.0.1", "127.0.0.1", "localhost", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"} {
		if err := c.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if err := c.VerifyHostname("192.0.2.8"); err == nil {
		t.Error("the certificate is also good for 192.0.2.8, an address nobody asked for")
	}
}

func TestTheKubeletIsNamedByTheNodesAddress(t *testing.T) {
	c := readCertificate(t, newPKI(t), "kubelet-server")
	for _, name := range []string{"node-1", "192.0.2.7"} {
		if err := c.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestUsersAndGroupsAreThoseTheAPIServerGrantsRightsTo(t *testing.T) {
	dir := newPKI(t)
	for _, want := range []struct {
		file, user string
		groups     []string
	}{
		{"admin", "admin", []string{"system:masters"}},
		{"kubelet", "system:node:node-1", []string{"system:nodes"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"proxy", "system:kube-proxy", nil},
		{"dns", "system:coredns", nil},
	} {
		s := readCertificate(t, dir, want.file).Subject
		if s.CommonName != want.user || !slices.Equal(s.Organization, want.groups) {
			t.Errorf("%s names user %q in groups %v, want %q in %v", want.file, s.CommonName, s.Organization, want.user, want.groups)
		}
	}
}

func TestEveryCertificateIsSignedByTheAuthority(t *testing.T) {
	dir := newPKI(t)
	pool := x509.NewCertPool()
	pool.AddCert(readCertificate(t, dir, "ca"))
	files, err := filepath.Glob(filepath.Join(dir, "*.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 12 {
		t.Errorf("%d certificates, want 12: %v", len(files), files)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".crt")
		_, err := readCertificate(t, dir, name).Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil && name != "ca" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTheOwnerReadsKeysAndKubeconfigs(t *testing.T) {
	dir := newPKI(t)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		secret := strings.HasSuffix(f, ".key") || strings.HasSuffix(f, ".kubeconfig")
		if secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", f, info.Mode().Perm())
		}
	}
}

func TestAKubeconfigIsCompleteInItself(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(newPKI(t), "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	s := string(b)
	if !strings.Contains(s, "server: https://192.0.2.7:6443\n") {
		t.Errorf("no server https://192.0.2.7:6443 in\n%s", s)
	}
	for _, word := range []string{"SERVER", "USER", "AUTHORITY", "CERTIFICATE", "KEY"} {
		if strings.Contains(s, ": "+word+"\n") {
			t.Errorf("placeholder %q is left in\n%s", word, s)
		}
	}
}
