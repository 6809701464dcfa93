package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// A Chain is relays that were started, each joined to the one before as its peer.
type Chain struct {
	// Relays are in the order of the media: publishers come to the first, viewers to
	// the last.
	Relays []*Started

	directory string // of their key
}

// StartChain starts n relays of ours by the same command, which must listen on ports
// that are free each time, and returns when each of them answers. They have one TLS
// key, made for this. Of one relay nothing is changed. The caller has to end them.
func StartChain(ctx context.Context, o StartOptions, n int) (_ *Chain, err error) {
	if n == 1 {
		relay, err := Start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Chain{Relays: []*Started{relay}}, nil
	}
	c := &Chain{}
	defer func() {
		if err != nil {
			c.End()
		}
	}()
	if c.directory, err = os.MkdirTemp("", "moq-load-key-"); err != nil {
		return nil, fmt.Errorf("a key for the relays: %w", err)
	}
	hash, err := writeKey(c.directory)
	if err != nil {
		return nil, fmt.Errorf("a key for the relays: %w", err)
	}
	command := append(slices.Clip(o.Command), "--tls-mode", "Files", "--tls-directories", c.directory, "--cluster-listen", "127.0.0.1:0")
	for i := range n {
		o.Command = command
		if i > 0 {
			o.Command = append(slices.Clip(command), "--cluster-peers", "dns+https://"+c.Relays[i-1].Peer)
		}
		relay, err := Start(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("relay %d of %d: %w", i+1, n, err)
		}
		relay.Target = relay.Target.pinnedTo(hash)
		c.Relays = append(c.Relays, relay)
	}
	return c, nil
}

// End ends all relays and waits until they are gone.
func (c *Chain) End() {
	for _, r := range slices.Backward(c.Relays) {
		r.End()
	}
	if c.directory != "" {
		_ = os.RemoveAll(c.directory)
	}
}

// pinnedTo is a relay with a certificate of that hash, which therefore does not tell
// it over plain HTTP.
func (t Target) pinnedTo(hash [sha256.Size]byte) Target {
	secure := "https"
	if t.Transport == transport.WebSocket {
		secure = "wss"
	}
	t.URL = secure + t.URL[len("http"):]
	t.CertificateHashes = append(slices.Clone(t.CertificateHashes), hash)
	return t
}

// writeKey makes a TLS key for this machine, and returns its certificate's hash.
func writeKey(directory string) (hash [sha256.Size]byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return hash, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "moq-load"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(13 * 24 * time.Hour), // browsers refuse 14 days
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return hash, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return hash, err
	}
	write := func(name, kind string, b []byte) error {
		return os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
	}
	return sha256.Sum256(der), errors.Join(write("tls.crt", "CERTIFICATE", der), write("tls.key", "EC PRIVATE KEY", private))
}
