package qmux

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/transporttest"
)

func TestWebSocketKeepsTheTransportContractOnEveryDraft(t *testing.T) {
	for _, d := range Drafts() {
		t.Run(d.String(), func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T, o transporttest.Options) transporttest.Pair {
				return newPair(t, &Config{
					Protocols: []string{"moq-lite-05"}, Drafts: []Draft{d},
					Windows: o.Windows, MaxIncomingStreams: o.MaxStreams,
				})
			})
		})
	}
}

// newPair connects a client to a server over loopback TCP. Both ends use cfg.
func newPair(t *testing.T, cfg *Config) transporttest.Pair {
	t.Helper()
	accepted := make(chan transport.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := Accept(w, r, cfg); err == nil {
			accepted <- c
		}
	}))
	t.Cleanup(srv.Close)
	client, err := Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/room?jwt=x", cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	t.Cleanup(func() {
		for _, c := range []transport.Conn{client, server} {
			c.Close(0, "end of test")
			<-c.(*conn).readDone
		}
	})
	lose := func() { _ = client.(*conn).carrier.(*wsCarrier).out.(io.Closer).Close() }
	return transporttest.Pair{Client: client, Server: server, Lose: lose}
}
