package quic

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// withClient gives the dialling side a certificate and returns it.
func withClient(t *testing.T, s *server) *x509.Certificate {
	t.Helper()
	cert, _ := newCertificate(t)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	s.dial.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	return leaf
}

// both dials native QUIC and WebTransport and returns the servers' ends.
func both(t *testing.T, s *server) []transport.Conn {
	t.Helper()
	_, native := s.connect(t)
	_, web := s.connectWeb(t, "/")
	return []transport.Conn{native, web}
}

func wantCertificates(t *testing.T, c transport.Conn, want ...*x509.Certificate) {
	t.Helper()
	got := c.Info().Certificates
	if len(got) != len(want) {
		t.Fatalf("%s: %d client certificates, want %d", c.Info().Kind, len(got), len(want))
	}
	for i, cert := range got {
		if !cert.Equal(want[i]) {
			t.Errorf("%s: certificate %d is of %v, want that of the client", c.Info().Kind, i, cert.Subject)
		}
	}
}

func TestAVerifiedClientCertificateIsInInfo(t *testing.T) {
	var pool atomic.Pointer[x509.CertPool]
	pool.Store(x509.NewCertPool())
	s := newServer(t, func(c *Config) {
		static := c.TLS.Clone()
		c.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			conf := static.Clone()
			conf.ClientAuth, conf.ClientCAs = tls.VerifyClientCertIfGiven, pool.Load()
			return conf, nil
		}
	})
	for _, c := range both(t, s) {
		wantCertificates(t, c)
	}
	leaf := withClient(t, s)
	if c, err := Dial(t.Context(), s.Addr().String(), s.dial); err == nil {
		<-c.Done() // the client learns of it after its own handshake
		if _, ok := c.Err().(*transport.CloseError); !ok {
			t.Errorf("a certificate that nobody vouches for: the connection ended with %v", c.Err())
		}
	}
	next := x509.NewCertPool()
	next.AddCert(leaf)
	pool.Store(next)
	for _, c := range both(t, s) {
		wantCertificates(t, c, leaf)
	}
}

func TestACertificateThatWasNotVerifiedIsNotInInfo(t *testing.T) {
	s := newServer(t, func(c *Config) { c.TLS.ClientAuth = tls.RequireAnyClientCert })
	withClient(t, s)
	for _, c := range both(t, s) {
		wantCertificates(t, c)
	}
}

func TestUpgradeSeesTheCertificate(t *testing.T) {
	seen := make(chan transport.Info, 1)
	cert, _ := newCertificate(t)
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	s := newServer(t, func(c *Config) {
		c.TLS.ClientAuth, c.TLS.ClientCAs = tls.VerifyClientCertIfGiven, pool
		c.Upgrade = func(info transport.Info) int { seen <- info; return 0 }
	})
	s.dial.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.connectWeb(t, "/")
	if info := <-seen; len(info.Certificates) != 1 || !info.Certificates[0].Equal(leaf) {
		t.Errorf("Upgrade was asked about %d certificates, want the client's", len(info.Certificates))
	}
}
