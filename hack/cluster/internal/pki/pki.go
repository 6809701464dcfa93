// Package pki makes the keys, certificates and kubeconfigs of a one-node cluster
// that lives for hours: one authority, everything signed by it, valid for a year.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const validity = 365 * 24 * time.Hour

// Names are what the certificates are made out to.
type Names struct {
	Node    string     // the node's name in the API
	Address netip.Addr // the node's, where API server and kubelet listen
	Service netip.Addr // the API server's, as a Service: the first of the range
	Port    int        // of the API server
}

// server is the API server's address as clients write it.
func (n Names) server() string {
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(n.Address, uint16(n.Port)))
}

// A subject is a certificate to be made: who it names, where it serves, and
// whether a kubeconfig comes with it.
type subject struct {
	file       string
	name       string   // a user to the API server
	groups     []string // the user's groups
	sans       []string // addresses and host names of a server
	kubeconfig bool
}

func (n Names) subjects() []subject {
	const masters = "system:masters"
	local := []string{"localhost", "127.0.0.1"}
	return []subject{
		{file: "apiserver", name: "kube-apiserver", sans: n.apiServer()},
		{file: "apiserver-kubelet", name: "kube-apiserver-kubelet-client", groups: []string{masters}},
		{file: "apiserver-etcd", name: "kube-apiserver-etcd-client"},
		{file: "etcd", name: "etcd", sans: local},
		{file: "kubelet-server", name: n.Node, sans: []string{n.Node, n.Address.String(), "127.0.0.1"}},
		{file: "kubelet", name: "system:node:" + n.Node, groups: []string{"system:nodes"}, kubeconfig: true},
		{file: "admin", name: "admin", groups: []string{masters}, kubeconfig: true},
		{file: "controller-manager", name: "system:kube-controller-manager", sans: local, kubeconfig: true},
		{file: "scheduler", name: "system:kube-scheduler", sans: local, kubeconfig: true},
		{file: "proxy", name: "system:kube-proxy", kubeconfig: true},
		{file: "dns", name: "system:coredns", kubeconfig: true},
	}
}

// apiServer lists every name by which a client may call the API server: from
// outside by address, from pods by the Service's address and names.
func (n Names) apiServer() []string {
	return []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", n.Address.String(), n.Service.String(),
	}
}

// Write makes all of it anew in dir: ca.crt; NAME.crt and NAME.key for apiserver,
// apiserver-kubelet, apiserver-etcd, etcd, kubelet-server, kubelet, admin,
// controller-manager, scheduler, proxy and dns; NAME.kubeconfig for the last six;
// sa.key and sa.pub, which sign and check tokens. Private keys and kubeconfigs are
// readable by the owner alone. The authority's key is not written: nothing else
// will be signed by it.
func Write(dir string, n Names) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keys and certificates: %w", err)
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca.pem, 0o644); err != nil {
		return fmt.Errorf("write authority: %w", err)
	}
	if err := writeTokenKey(dir); err != nil {
		return err
	}
	for _, s := range n.subjects() {
		if err := ca.write(dir, s, n.server()); err != nil {
			return fmt.Errorf("certificate %s: %w", s.file, err)
		}
	}
	return nil
}

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	t, err := template("moq-cluster", nil)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return &authority{key: key, cert: cert, pem: block("CERTIFICATE", der)}, nil
}

// template starts an hour ago, for clocks that are a little behind.
func template(name string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(validity),
	}, nil
}

func (ca *authority) write(dir string, s subject, server string) error {
	cert, key, err := ca.issue(s)
	if err != nil {
		return err
	}
	base := filepath.Join(dir, s.file)
	if err := os.WriteFile(base+".crt", cert, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base+".key", key, 0o600); err != nil {
		return err
	}
	if !s.kubeconfig {
		return nil
	}
	return os.WriteFile(base+".kubeconfig", kubeconfig(server, s.file, ca.pem, cert, key), 0o600)
}

func (ca *authority) issue(s subject) (cert, key []byte, err error) {
	t, err := template(s.name, s.groups)
	if err != nil {
		return nil, nil, err
	}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.sans) > 0 {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, san := range s.sans {
		if ip := net.ParseIP(san); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, san)
		}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca.cert, &private.PublicKey, ca.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", keyDER), nil
}

// writeTokenKey makes the pair that signs and checks service account tokens.
func writeTokenKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sa.key"), block("EC PRIVATE KEY", private), 0o600); err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sa.pub"), block("PUBLIC KEY", public), 0o644); err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	return nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// kubeconfig carries its certificates inside, so that the file alone can be copied.
func kubeconfig(server, user string, ca, cert, key []byte) []byte {
	b64 := base64.StdEncoding.EncodeToString
	return []byte(strings.NewReplacer(
		"SERVER", server, "USER", user, "AUTHORITY", b64(ca), "CERTIFICATE", b64(cert), "KEY", b64(key),
	).Replace(`apiVersion: v1
kind: Config
clusters:
- name: moq-cluster
  cluster:
    server: SERVER
    certificate-authority-data: AUTHORITY
users:
- name: USER
  user:
    client-certificate-data: CERTIFICATE
    client-key-data: KEY
contexts:
- name: moq-cluster
  context: {cluster: moq-cluster, user: USER}
current-context: moq-cluster
`))
}
