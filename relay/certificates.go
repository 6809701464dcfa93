package relay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/status"
)

// The self-signed certificate: browsers accept at most 14 days for a certificate
// that they know by its hash.
const (
	selfSignedBefore = time.Hour
	selfSignedLife   = 13 * 24 * time.Hour
	selfSignedName   = "self-signed"
)

// certificateInterval is how often certificate files are looked at.
const certificateInterval = 10 * time.Second

// certificates are what TLS serves.
type certificates struct {
	cfg     config.TLS
	log     *slog.Logger
	reloads func(result string) // counts
	now     chan struct{}       // asks for a look at the files

	mu     sync.Mutex
	served []*servedCertificate // the default one first; a directory without a usable pair has none

	keys peerKeys // of the default one

	faults map[string]string // what was last wrong with a directory, told once; of load alone
}

// servedCertificate is one pair in use.
type servedCertificate struct {
	name string
	pair tls.Certificate
	hash [sha256.Size]byte // of the first certificate's DER form
	text [sha256.Size]byte // of the files' bytes, to see a change
}

var errNoCertificate = errors.New("no certificate is loaded yet")

// newCertificates reads what there is; reloads is told what became of each changed pair.
func newCertificates(cfg config.TLS, log *slog.Logger, reloads func(result string)) (*certificates, error) {
	c := &certificates{cfg: cfg, log: log, reloads: reloads, now: make(chan struct{}, 1), faults: make(map[string]string)}
	if cfg.Mode == config.SelfSigned {
		return c, c.renew(time.Now())
	}
	c.served = make([]*servedCertificate, len(cfg.Directories))
	c.load()
	return c, nil
}

// loaded reports whether the default certificate is there.
func (c *certificates) loaded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.served) > 0 && c.served[0] != nil
}

// get picks by server name; the default one for unknown names.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fallback *tls.Certificate
	for _, s := range c.served {
		if s == nil {
			continue
		}
		if fallback == nil {
			fallback = &s.pair
		}
		if hello.ServerName != "" && s.pair.Leaf.VerifyHostname(hello.ServerName) == nil {
			return &s.pair, nil
		}
	}
	if fallback == nil {
		return nil, errNoCertificate
	}
	return fallback, nil
}

// hash is the SHA-256 of the default certificate, in lower-case hex.
func (c *certificates) hash() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.served) == 0 || c.served[0] == nil {
		return "", false
	}
	return hex.EncodeToString(c.served[0].hash[:]), true
}

// report lists what is served.
func (c *certificates) report() []status.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []status.Certificate{}
	for _, s := range c.served {
		if s == nil {
			continue
		}
		leaf := s.pair.Leaf
		out = append(out, status.Certificate{
			Name: s.name, SHA256: hex.EncodeToString(s.hash[:]),
			NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, DNSNames: leaf.DNSNames[:min(8, len(leaf.DNSNames))],
		})
	}
	return out
}

// run follows changed files, or renews the self-signed certificate at half its life.
func (c *certificates) run(ctx context.Context) error {
	tick := time.NewTicker(certificateInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			c.refresh(now)
		case <-c.now:
			c.refresh(time.Now())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *certificates) refresh(now time.Time) {
	if c.cfg.Mode != config.SelfSigned {
		c.load()
		return
	}
	c.mu.Lock()
	leaf := c.served[0].pair.Leaf
	c.mu.Unlock()
	if now.Before(leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)) {
		return
	}
	if err := c.renew(now); err != nil {
		c.log.Error("cannot renew the self-signed certificate; the old one stays until it expires", "notAfter", leaf.NotAfter, "error", err)
	}
}

// renew makes a new self-signed certificate for new connections.
func (c *certificates) renew(now time.Time) error {
	pair, err := selfSigned(now)
	if err != nil {
		return fmt.Errorf("self-signed certificate: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = []*servedCertificate{{name: selfSignedName, pair: pair, hash: sha256.Sum256(pair.Certificate[0])}}
	return nil
}

// selfSigned makes a P-256 certificate for this machine's names and addresses.
func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "moq-relay"},
		NotBefore: now.Add(-selfSignedBefore), NotAfter: now.Add(selfSignedLife - selfSignedBefore),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{"localhost"}, IPAddresses: localAddresses(),
	}
	if name, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, name)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func localAddresses() []net.IP {
	out := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return out
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP)
		}
	}
	return out
}

// load reads every directory whose files have changed. A pair that cannot be used
// leaves the one before in service.
func (c *certificates) load() {
	for i, directory := range c.cfg.Directories {
		c.mu.Lock()
		before := c.served[i]
		c.mu.Unlock()
		served, err := readCertificate(directory, before)
		if err == nil {
			delete(c.faults, directory)
		}
		switch {
		case err != nil && before == nil:
			c.log.Warn("no certificate: put tls.crt and tls.key into the directory; the relay looks again by itself", "directory", directory, "error", err)
			continue
		case err != nil && c.faults[directory] == err.Error():
			continue
		case err != nil:
			c.faults[directory] = err.Error()
			c.reloads(reloadRejected)
			c.log.Error("cannot use the changed certificate; the one before stays in service", "directory", directory, "error", err)
			continue
		case served == before:
			continue
		}
		c.mu.Lock()
		c.served[i] = served
		c.mu.Unlock()
		if i == 0 {
			c.keys.use(&served.pair, time.Now())
		}
		if before != nil {
			c.reloads(reloadOK)
		}
		c.logLoaded(directory, served)
	}
}

// expiryWarning is how long before its end a certificate is warned of.
const expiryWarning = 14 * 24 * time.Hour

func (c *certificates) logLoaded(directory string, served *servedCertificate) {
	leaf, now := served.pair.Leaf, time.Now()
	write := c.log.Warn
	var text string
	switch {
	case now.After(leaf.NotAfter):
		text = "the certificate has expired, clients will refuse it: renew it, no restart is needed"
	case now.Before(leaf.NotBefore):
		text = "the certificate is not valid yet, clients will refuse it until then"
	case now.Add(expiryWarning).After(leaf.NotAfter):
		text = "the certificate expires soon: renew it, no restart is needed"
	default:
		write, text = c.log.Info, "certificate loaded"
	}
	write(text, "directory", directory, "notBefore", leaf.NotBefore, "notAfter", leaf.NotAfter, "sha256", hex.EncodeToString(served.hash[:]))
}

// readCertificate returns before when the files have not changed.
func readCertificate(directory string, before *servedCertificate) (*servedCertificate, error) {
	chain, err := os.ReadFile(filepath.Join(directory, "tls.crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(directory, "tls.key"))
	if err != nil {
		return nil, err
	}
	text := sha256.Sum256(append(append([]byte{}, chain...), key...))
	if before != nil && before.text == text {
		return before, nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", directory, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &servedCertificate{
		name: filepath.Base(directory), pair: pair, text: text, hash: sha256.Sum256(pair.Certificate[0]),
	}, nil
}
