package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/moqrelay/operator/relay/config"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/qmux"
	"github.com/moqrelay/operator/relay/transport/quic"
)

// Addresses are where a server listens, as HOST:PORT; "none" for what is off.
type Addresses struct {
	UDP, TCP, Status string
	// Peer is the port for other relays, UDP.
	Peer string
}

// String is the line that programs and scripts wait for.
func (a Addresses) String() string {
	line := fmt.Sprintf("listening udp=%s tcp=%s status=%s", a.UDP, a.TCP, a.Status)
	if a.Peer != "none" {
		line += " peer=" + a.Peer
	}
	return line
}

type sockets struct {
	udp    *quic.Listener // nil when QUIC and WebTransport are off
	peer   *quic.Listener // nil when cluster.listen is empty
	tcp    *acceptor
	status *acceptor // nil when status.listen is empty
}

func (s *sockets) close() {
	if s.udp != nil {
		_ = s.udp.Close()
	}
	if s.peer != nil {
		_ = s.peer.Close()
	}
	if s.tcp != nil {
		_ = s.tcp.Close()
	}
	if s.status != nil {
		_ = s.status.Close()
	}
}

// portTries is how often a port that is free on TCP is tried on UDP too.
const portTries = 32

// Listen opens every socket. Port 0 in listen picks one number that is free on
// both UDP and TCP. After it the relay is ready, if a certificate is there.
func (s *Server) Listen(ctx context.Context) (Addresses, error) {
	if err := s.listenClients(ctx); err != nil {
		s.sockets.close()
		return Addresses{}, taken(err, "--listen")
	}
	if err := s.listenPeers(ctx); err != nil {
		s.sockets.close()
		return Addresses{}, err
	}
	if s.cfg.Status.Listen != "" {
		var err error
		if s.sockets.status, err = s.listenTCP(ctx, "status", s.cfg.Status.Listen); err != nil {
			s.sockets.close()
			return Addresses{}, taken(fmt.Errorf("status.listen: %w", err), "--status-listen")
		}
	}
	s.reportSocket()
	if s.cfg.TLS.Mode == config.SelfSigned {
		s.log.Info("the certificate is self-signed: clients that are given the http:// address fetch its hash themselves",
			"address", "http://"+s.sockets.tcp.Addr().String())
	}
	s.ready.Store(s.certificates.loaded())
	return s.addresses(), nil
}

// taken says what to do about an address that is in use.
func taken(err error, flag string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; another relay may have it: stop that one, or choose another address with %s", err, flag)
	}
	return err
}

func (s *Server) addresses() Addresses {
	a := Addresses{UDP: "none", TCP: s.sockets.tcp.Addr().String(), Status: "none", Peer: "none"}
	if s.sockets.udp != nil {
		a.UDP = s.sockets.udp.Addr().String()
	}
	if s.sockets.peer != nil {
		a.Peer = s.sockets.peer.Addr().String()
	}
	if s.sockets.status != nil {
		a.Status = s.sockets.status.Addr().String()
	}
	return a
}

func (s *Server) listenClients(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for range portTries {
		if s.sockets.tcp, err = s.listenTCP(ctx, "tcp", s.cfg.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		_, picked, _ := net.SplitHostPort(s.sockets.tcp.Addr().String())
		if err = s.listenUDP(ctx, net.JoinHostPort(host, picked)); err == nil {
			return nil
		}
		_ = s.sockets.tcp.Close()
		if port != "0" || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return fmt.Errorf("listen: %w", err)
}

func (s *Server) listenTCP(ctx context.Context, name, address string) (*acceptor, error) {
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newAcceptor(inner, name, s.log), nil
}

func (s *Server) listenUDP(ctx context.Context, address string) error {
	t := s.cfg.Transports
	native, web := t.QUIC.State.On(), t.WebTransport.State.On()
	s.qmux = s.qmuxConfig()
	if !native && !web {
		return nil
	}
	listener, err := quic.Listen(ctx, quic.Config{
		Settings:       s.quicSettings(),
		Address:        address,
		TLS:            s.clientTLS(s.quicTLS()),
		Protocols:      s.protocols(),
		NoQUIC:         !native,
		NoWebTransport: !web,
		AllowedOrigins: t.AllowedOrigins,
		ReceiveBuffer:  int(s.cfg.SocketBuffers.Receive),
		SendBuffer:     int(s.cfg.SocketBuffers.Send),
		SetupTimeout:   s.setupTimeout,
		Admit:          s.admit,
		Refused:        func(reason quic.Refusal) { s.sessions.refuse(string(reason)) },
		Upgrade: func(info transport.Info) int {
			if s.refusal(info.Remote) != "" {
				return 503
			}
			status, _ := s.deny(ctx, info)
			return status
		},
	})
	if err != nil {
		return err
	}
	s.sockets.udp = listener
	return nil
}

// quicSettings are those of a connection to a client.
func (s *Server) quicSettings() quic.Settings {
	return quic.Settings{
		Windows:           s.windows(),
		MaxStreams:        int64(s.cfg.Windows.MaxIncomingStreams),
		IdleTimeout:       time.Duration(s.cfg.Transports.QUIC.IdleTimeoutSeconds) * time.Second,
		InitialPacketSize: uint16(s.cfg.Transports.QUIC.InitialPacketSize),
	}
}

// quicTLS counts the handshakes that cannot succeed: nobody else sees them.
func (s *Server) quicTLS() *tls.Config {
	spoken := append(s.protocols(), "h3")
	return &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := s.certificates.get(hello)
			if err != nil {
				s.sessions.refuse(refusedTLS)
			}
			return cert, err
		},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !slices.ContainsFunc(hello.SupportedProtos, func(p string) bool { return slices.Contains(spoken, p) }) {
				s.sessions.refuse(refusedVersion)
			}
			return nil, nil //nolint:nilnil // the configuration stays as it is
		},
	}
}

func (s *Server) windows() transport.Windows {
	return transport.Windows{Stream: int64(s.cfg.Windows.Stream), Connection: int64(s.cfg.Windows.Connection)}
}

// protocols are the tokens that sessions may negotiate, the preferred first.
func (s *Server) protocols() []string {
	if len(s.cfg.Protocols) > 0 {
		return s.cfg.Protocols
	}
	return config.Released()
}

func (s *Server) qmuxConfig() qmux.Config {
	var drafts []qmux.Draft
	for _, name := range s.cfg.Transports.QMuxDrafts {
		if d, err := qmux.ParseDraft(name); err == nil { // checked by config
			drafts = append(drafts, d)
		}
	}
	return qmux.Config{
		Protocols: s.protocols(), Drafts: drafts, Windows: s.windows(),
		MaxIncomingStreams: int64(s.cfg.Windows.MaxIncomingStreams),
		IdleTimeout:        time.Duration(s.cfg.Transports.QUIC.IdleTimeoutSeconds) * time.Second,
		AllowedOrigins:     s.cfg.Transports.AllowedOrigins,
	}
}

// reportSocket warns when the kernel granted less than was asked.
func (s *Server) reportSocket() {
	if s.sockets.udp == nil {
		return
	}
	stats, err := s.sockets.udp.Socket()
	if err != nil {
		s.log.Warn("cannot read the UDP socket's buffers", "error", err)
		return
	}
	for _, b := range []struct {
		name, sysctl string
		asked, got   int
	}{
		{"socketBuffers.receive", "net.core.rmem_max", stats.RequestedReceive, stats.GrantedReceive},
		{"socketBuffers.send", "net.core.wmem_max", stats.RequestedSend, stats.GrantedSend},
	} {
		if b.got < b.asked {
			s.log.Warn("the kernel granted a smaller UDP buffer than asked; raise "+b.sysctl+" on this machine to at least what was asked",
				"setting", b.name, "asked", b.asked, "granted", b.got, "sysctl", b.sysctl+"="+strconv.Itoa(b.asked))
		}
	}
}
