package qmux

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// newClientCertificate makes a self-signed one.
func newClientCertificate(t *testing.T) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, leaf
}

// secure is a connected pair over TLS; the client may give a certificate that the
// server knows.
func secure(t *testing.T, auth tls.ClientAuthType, give bool) (client, server transport.Conn, leaf *x509.Certificate) {
	t.Helper()
	accepted := make(chan transport.Conn, 1)
	cfg := &Config{Protocols: []string{"moq-lite-05"}}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := Accept(w, r, cfg); err == nil {
			accepted <- c
		}
	}))
	t.Cleanup(srv.Close)
	cert, leaf := newClientCertificate(t)
	srv.TLS = &tls.Config{ClientAuth: auth, ClientCAs: x509.NewCertPool()}
	srv.TLS.ClientCAs.AddCert(leaf)
	srv.StartTLS()
	cfg.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	if give {
		cfg.TLS.Certificates = []tls.Certificate{cert}
	}
	client, err := Dial(t.Context(), srv.URL, cfg)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { client.Close(0, ""); server.Close(0, "") })
	return client, server, leaf
}

func TestAVerifiedClientCertificateIsInInfo(t *testing.T) {
	for _, row := range []struct {
		auth tls.ClientAuthType
		give bool
		want int
	}{
		{tls.VerifyClientCertIfGiven, true, 1},
		{tls.VerifyClientCertIfGiven, false, 0},
		{tls.RequireAnyClientCert, true, 0}, // given, but not verified
		{tls.NoClientCert, true, 0},
	} {
		_, server, leaf := secure(t, row.auth, row.give)
		got := server.Info().Certificates
		if len(got) != row.want || row.want == 1 && !got[0].Equal(leaf) {
			t.Errorf("%v, given %v: %d certificates, want %d", row.auth, row.give, len(got), row.want)
		}
	}
}

func TestStatsHaveTheKernelsFigures(t *testing.T) {
	client, server, _ := secure(t, tls.NoClientCert, false)
	s, err := client.OpenSendStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.AcceptReceiveStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []transport.Conn{client, server} {
		st := c.Stats()
		if st.RTT <= 0 || st.Bitrate <= 0 || st.PacketsSent == 0 || st.PacketsReceived == 0 || st.BytesSent == 0 || st.BytesReceived == 0 {
			t.Errorf("%+v, want figures of a connection that has moved bytes", st)
		}
	}
}
