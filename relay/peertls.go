package relay

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// keyLife is for how long a TLS key that was replaced still proves who a peer is:
// replicas do not see a changed Secret at the same time.
const keyLife = 24 * time.Hour

// peerKeys are the pairs that prove this relay to its peers, and those whose owners
// are let in: the default certificate's, and before it the ones it has replaced.
type peerKeys struct {
	mu   sync.Mutex
	keys []peerKey // the current one first
}

// peerKey is one pair.
type peerKey struct {
	hash  [sha256.Size]byte // of the public key
	pair  *tls.Certificate
	until time.Time // zero for the current one
}

var (
	errForeignKey  = errors.New("its TLS key is none of ours: give all relays of a mesh the same tls.directories")
	errNoPeerProof = errors.New("it has shown no certificate: only relays with our TLS key may use the peer port")
	errNoRoots     = errors.New("has no certificate of an authority in PEM form")
)

// use makes pair the current one.
func (k *peerKeys) use(pair *tls.Certificate, now time.Time) {
	hash := keyHash(pair.Leaf)
	k.mu.Lock()
	defer k.mu.Unlock()
	kept := []peerKey{{hash: hash, pair: pair}}
	for _, old := range k.keys {
		if old.until.IsZero() {
			old.until = now.Add(keyLife)
		}
		if old.hash != hash && now.Before(old.until) {
			kept = append(kept, old)
		}
	}
	k.keys = kept
}

// pair is the one to show to a peer whose public key has that hash: the one with the
// same key, for it may not know a newer one yet; else the current one.
func (k *peerKeys) pair(hash [sha256.Size]byte) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) == 0 {
		return nil, errNoCertificate
	}
	for _, key := range k.keys {
		if key.hash == hash {
			return key.pair, nil
		}
	}
	return k.keys[0].pair, nil
}

// knows reports whether a certificate's public key is one of ours now.
func (k *peerKeys) knows(leaf *x509.Certificate, now time.Time) bool {
	hash := keyHash(leaf)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		if key.hash == hash && (key.until.IsZero() || now.Before(key.until)) {
			return true
		}
	}
	return false
}

// keyHash is the SHA-256 of the public key, as certificates write it.
func keyHash(leaf *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
}

// peerGate decides who may be a peer: whoever proves possession of one of our own TLS
// keys. Names, authorities and dates of certificates do not count, and there is no
// resumption that could go around the proof.
type peerGate struct {
	keys    *peerKeys
	log     *slog.Logger
	refused atomic.Int64
	told    rate
}

// check judges the other side of a handshake. The proof itself is TLS's: whoever
// shows a certificate must sign with its key.
func (g *peerGate) check(state tls.ConnectionState, remote string) error {
	var err error
	switch {
	case len(state.PeerCertificates) == 0:
		err = errNoPeerProof
	case !g.keys.knows(state.PeerCertificates[0], time.Now()):
		hash := keyHash(state.PeerCertificates[0])
		err = fmt.Errorf("%w (the SHA-256 of its public key begins with %x)", errForeignKey, hash[:8])
	}
	if err != nil {
		g.refuse(remote, err)
	}
	return err
}

func (g *peerGate) refuse(remote string, err error) {
	g.refused.Add(1)
	if g.told.take(time.Now(), 1) { // anybody may knock
		g.log.Warn("refused a connection between peer ports", "remote", remote, "error", err)
	}
}

// server is the configuration of the peer port. It asks for a certificate and does
// not require one, so that who has none is refused, counted and named by check.
func (g *peerGate) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			remote := hello.Conn.RemoteAddr().String()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, ClientAuth: tls.RequestClientCert, SessionTicketsDisabled: true,
				GetCertificate:   func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.keys.pair([sha256.Size]byte{}) },
				VerifyConnection: func(state tls.ConnectionState) error { return g.check(state, remote) },
			}, nil
		},
	}
}

// client is the configuration of one dial. It shows the pair whose key the server
// has shown, where that is one of ours.
func (g *peerGate) client(address string) *tls.Config {
	var theirs [sha256.Size]byte // set by the server's certificate, which comes first
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, //nolint:gosec // the key is the check, in VerifyConnection
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			leaf, err := x509.ParseCertificate(raw[0])
			if err == nil {
				theirs = keyHash(leaf)
			}
			return err
		},
		VerifyConnection:     func(state tls.ConnectionState) error { return g.check(state, address) },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return g.keys.pair(theirs) },
	}
}

// upstreamTLS checks an upstream by its name and the system's authorities, or those
// of the configured file as it is now.
func upstreamTLS(c config.Cluster, name string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: name}
	if c.UpstreamsCA == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.UpstreamsCA)
	if err != nil {
		return nil, fmt.Errorf("cluster.upstreamsCA: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cluster.upstreamsCA: %s %w", c.UpstreamsCA, errNoRoots)
	}
	return cfg, nil
}
