package qmux

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/moqrelay/operator/relay/transport"
)

func TestTheKernelIsToldToHoldLittleUnsent(t *testing.T) {
	for _, secure := range []bool{false, true} {
		accepted := make(chan transport.Conn, 1)
		cfg := &Config{Protocols: []string{"moq-lite-05"}}
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := Accept(w, r, cfg); err == nil {
				accepted <- c
			}
		}))
		t.Cleanup(srv.Close)
		if secure {
			srv.StartTLS()
			cfg.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
		} else {
			srv.Start()
		}
		client, err := Dial(t.Context(), srv.URL, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(0, "")
		server := <-accepted
		defer server.Close(0, "")
		if got := unsent(t, server.(*conn).carrier.(*wsCarrier).out.(net.Conn)); got != 65536 {
			t.Errorf("secure %v: the server's socket holds %d bytes unsent, want 65536", secure, got)
		}
	}
}

// unsent reads TCP_NOTSENT_LOWAT back.
func unsent(t *testing.T, c net.Conn) (bytes int) {
	t.Helper()
	if s, ok := c.(*tls.Conn); ok {
		c = s.NetConn()
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) {
		bytes, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return bytes
}
