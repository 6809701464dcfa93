package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
)

// serveUDP hands every QUIC and WebTransport connection to a session.
func (s *Server) serveUDP(ctx context.Context) error {
	if s.sockets.udp == nil {
		return nil
	}
	for {
		conn, err := s.sockets.udp.Accept(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("client port, UDP: %w", err)
		}
		s.sessions.running.Go(func() { s.serve(ctx, conn) })
	}
}

// serveTCP serves HTTP on the client port: over TLS, and plain too while the
// certificate is self-signed, because browsers then fetch its hash that way.
func (s *Server) serveTCP(ctx context.Context) error {
	split := &splitListener{
		Listener: s.sockets.tcp,
		tls: s.clientTLS(&tls.Config{
			GetCertificate: s.certificates.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		}),
		plain: s.cfg.TLS.Mode == config.SelfSigned, admit: s.mayBegin, patience: s.setupTimeout,
		refused: s.sessions.refuse, accepted: make(chan net.Conn),
	}
	server := s.httpServer(ctx)
	s.sessions.running.Go(func() { _ = server.Serve(sortedListener{split, ctx}) })
	err := split.run(ctx)
	_ = server.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("client port, TCP: %w", err)
}

// httpServer bounds what a client may make it wait for. No route reads a body, but
// the library does after the answer, so reading a whole request has a limit too; it
// does not reach into a session, whose deadlines begin anew with the upgrade.
func (s *Server) httpServer(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:        s.publicHandler(ctx),
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   20 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(s.logs, slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
}

// publicHandler has the routes of the client port.
func (s *Server) publicHandler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /certificate.sha256", func(w http.ResponseWriter, _ *http.Request) {
		hash, ok := s.certificates.hash()
		if !ok {
			answer(w, http.StatusNotFound, errNoCertificate.Error())
			return
		}
		answer(w, http.StatusOK, hash) // no newline: clients decode the body as it is
	})
	mux.HandleFunc("GET /fetch/", s.fetchGroup)
	mux.HandleFunc("GET /announced/", s.announced)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.upgrade(ctx, w, r) })
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// upgrade turns a request on any other path into a session over WebSocket. The
// path is the session's root.
func (s *Server) upgrade(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	switch {
	case !qmux.IsUpgrade(r):
		answer(w, http.StatusNotFound, "not found: this port serves /health, /certificate.sha256, /announced/PREFIX, /fetch/BROADCAST/TRACK and WebSocket upgrades")
		return
	case !s.cfg.Transports.WebSocket.State.On():
		answer(w, http.StatusNotFound, "WebSocket is disabled on this relay (transports.webSocket.state)")
		return
	}
	if reason := s.refusal(remoteAddr(r)); reason != "" {
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusServiceUnavailable, "no new sessions now: "+reason)
		return
	}
	info := transport.Info{Kind: transport.WebSocket, Path: r.URL.RequestURI(), Remote: remoteAddr(r), Certificates: clientCertificates(r.TLS)}
	if status, text := s.deny(ctx, info); status != 0 {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		answer(w, status, text)
		return
	}
	conn, err := qmux.Accept(w, r, &s.qmux)
	if err != nil {
		s.sessions.refuse(upgradeRefusal(err))
		s.log.Debug("WebSocket upgrade refused", "remote", r.RemoteAddr, "error", err)
		return
	}
	s.sessions.running.Go(func() { s.serve(ctx, conn) })
}

// upgradeRefusal is the metrics' word for a WebSocket upgrade that was refused.
func upgradeRefusal(err error) string {
	refused, ok := errors.AsType[*qmux.RefusedError](err)
	switch {
	case ok && refused.Status == http.StatusBadRequest:
		return refusedVersion
	case ok && refused.Status == http.StatusForbidden:
		return refusedForbidden
	}
	return refusedMalformed
}

// remoteAddr is the client's address; HTTP servers have it as text.
func remoteAddr(r *http.Request) net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	if err != nil {
		return &net.TCPAddr{}
	}
	return addr
}
