package quic

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/transporttest"
)

// newCertificate makes what --dev makes: P-256, self-signed, valid for 13 days.
func newCertificate(t *testing.T) (tls.Certificate, [sha256.Size]byte) {
	t.Helper()
	return newCertificateFrom(t, time.Now().Add(-time.Hour))
}

func newCertificateFrom(t *testing.T, from time.Time) (tls.Certificate, [sha256.Size]byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(13 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, sha256.Sum256(der)
}

// server is a listener on a free port of 127.0.0.1.
type server struct {
	*Listener
	dial DialConfig // trusts it
}

func newServer(t *testing.T, change func(*Config)) *server {
	t.Helper()
	cert, hash := newCertificate(t)
	cfg := Config{
		Address:        "127.0.0.1:0",
		TLS:            &tls.Config{Certificates: []tls.Certificate{cert}},
		Protocols:      []string{"moq-lite-06", "moq-lite-05"},
		AllowedOrigins: []string{"*"},
	}
	if change != nil {
		change(&cfg)
	}
	l, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close the listener: %v", err)
		}
	})
	return &server{Listener: l, dial: DialConfig{
		Settings: cfg.Settings, Protocols: cfg.Protocols, CertificateHashes: [][sha256.Size]byte{hash},
	}}
}

func (s *server) url(path string) string { return "https://" + s.Addr().String() + path }

// accept returns the next connection of the server.
func (s *server) accept(t *testing.T) transport.Conn {
	t.Helper()
	conn, err := s.Accept(t.Context())
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	return conn
}

func (s *server) connect(t *testing.T) (client, server transport.Conn) {
	t.Helper()
	client, err := Dial(t.Context(), s.Addr().String(), s.dial)
	if err != nil {
		t.Fatal(err)
	}
	return client, s.accept(t)
}

func (s *server) connectWeb(t *testing.T, path string) (client, server transport.Conn) {
	t.Helper()
	client, err := DialWebTransport(t.Context(), s.url(path), s.dial)
	if err != nil {
		t.Fatal(err)
	}
	return client, s.accept(t)
}

func settings(o transporttest.Options) Settings {
	s := Settings{Windows: o.Windows, MaxStreams: o.MaxStreams, IdleTimeout: 50 * time.Second}
	if o.Lossy {
		s.IdleTimeout, s.KeepAlive = 2*time.Second, 200*time.Millisecond
	}
	return s
}

// lose ends the server's UDP socket as a crash does: no word to the client.
func (s *server) lose() { _ = s.quic.Close() }

func TestNativeQUICPassesTheSuite(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, o transporttest.Options) transporttest.Pair {
		s := newServer(t, func(c *Config) { c.Settings = settings(o) })
		client, server := s.connect(t)
		return transporttest.Pair{Client: client, Server: server, Lose: s.lose}
	})
}

func TestWebTransportPassesTheSuite(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, o transporttest.Options) transporttest.Pair {
		s := newServer(t, func(c *Config) { c.Settings = settings(o) })
		client, server := s.connectWeb(t, "/room?jwt=x")
		return transporttest.Pair{
			Client: client, Server: server, Lose: s.lose,
			Overhead: transporttest.Overhead{
				StreamBytes: 3, ConnectionBytes: 512, Streams: 1, SendStreams: 1,
				LateBytes: 1452, // the rest of a Write, at most a packet, gets its credit when it is sent
			},
		}
	})
}
