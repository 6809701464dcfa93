package auth

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"sync/atomic"
)

// maxAuthorities bounds the file of authorities, in bytes.
const maxAuthorities = 1 << 20

// authority is who signs client certificates.
type authority struct {
	path    string
	pool    atomic.Pointer[x509.CertPool]
	applied [sha256.Size]byte
	failed  string
}

func newAuthority(path string) *authority {
	a := &authority{path: path}
	a.pool.Store(x509.NewCertPool()) // without any: nil would mean the system's
	return a
}

// load reads the file; one that cannot be used leaves what was there before.
func (a *authority) load(log *slog.Logger) {
	text, err := readFile(a.path, maxAuthorities)
	sum := sha256.Sum256(text)
	if err == nil && sum == a.applied {
		return
	}
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = errors.New("it has no certificate in PEM form")
	}
	if err != nil {
		if a.failed != err.Error() {
			a.failed = err.Error()
			log.Error("cannot read the authorities of client certificates; the ones before stay; the relay looks again by itself",
				"setting", "auth.clientCA", "place", a.path, "error", err)
		}
		return
	}
	a.failed, a.applied = "", sum
	a.pool.Store(pool)
	log.Info("authorities of client certificates loaded", "setting", "auth.clientCA", "place", a.path)
}

// TLS returns cfg as a server's configuration that asks clients for a certificate
// and refuses those that the authorities of now did not sign; a client may have
// none. Without authorities it is cfg itself.
func (a *Authorizer) TLS(cfg *tls.Config) *tls.Config {
	if a.ca == nil {
		return cfg
	}
	asking := cfg.Clone()
	asking.ClientAuth = tls.VerifyClientCertIfGiven
	asking.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen := cfg
		if cfg.GetConfigForClient != nil {
			other, err := cfg.GetConfigForClient(hello)
			if err != nil {
				return nil, err
			}
			if other != nil {
				chosen = other
			}
		}
		now := chosen.Clone()
		now.GetConfigForClient = nil
		now.ClientAuth, now.ClientCAs = tls.VerifyClientCertIfGiven, a.ca.pool.Load()
		return now, nil
	}
	return asking
}
