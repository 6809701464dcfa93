package qmux

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
)

// One viewer on loopback reads a stream that is written in pieces, as the
// fan-out does. Both ends are in this process.
func BenchmarkWebSocketWrite(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"8KiB", 8 << 10}, {"64KiB", 64 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			s := benchStream(b)
			p := make([]byte, size.bytes)
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Write(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchStream(b *testing.B) transport.SendStream {
	b.Helper()
	cfg := &Config{Protocols: []string{"moq-lite-05"}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Accept(w, r, cfg)
		if err != nil {
			return
		}
		s, err := c.AcceptReceiveStream(r.Context())
		if err == nil {
			_, _ = io.Copy(io.Discard, s)
		}
	}))
	b.Cleanup(srv.Close)
	c, err := Dial(b.Context(), srv.URL, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(0, "") })
	s, err := c.OpenSendStream(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return s
}
