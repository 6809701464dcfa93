package quic

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/moqrelay/operator/relay/transport"
)

// DialConfig describes a connection that we open.
type DialConfig struct {
	Settings
	// Protocols are the tokens we offer, the one we prefer first. At least one.
	Protocols []string
	// TLS is copied; nil means the system's roots. NextProtos is replaced.
	TLS *tls.Config
	// CertificateHashes, if any, take the place of roots: the server's
	// certificate must be valid now and have one of these SHA-256 hashes over its
	// DER form, as browsers do with serverCertificateHashes. Its names do not count.
	CertificateHashes [][sha256.Size]byte
	// Origin is sent with a WebTransport request, as browsers do; empty: none.
	Origin string
	// ReceiveBuffer and SendBuffer are the socket's buffers in bytes, as in [Config];
	// both 0 leaves what quic-go set.
	ReceiveBuffer, SendBuffer int
}

// Dial opens native QUIC to HOST:PORT. ctx bounds the dialling alone. The
// connection has a socket of its own, which ends with it.
func Dial(ctx context.Context, address string, cfg DialConfig) (transport.Conn, error) {
	cfg.Settings = cfg.Settings.withDefaults()
	conn, err := dial(ctx, address, cfg, cfg.Protocols)
	if err != nil {
		return nil, fmt.Errorf("dial QUIC %q: %w", address, err)
	}
	return newNativeConn(conn, cfg.Windows, true), nil
}

// DialWebTransport opens a WebTransport session at an https URL; its path and
// query go to the server. A server's refusal is a [*RefusedError].
func DialWebTransport(ctx context.Context, rawURL string, cfg DialConfig) (transport.Conn, error) {
	cfg.Settings = cfg.Settings.withDefaults()
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("dial WebTransport: %w", err)
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("dial WebTransport %q: the scheme is not https", u.Redacted())
	}
	if u.Port() == "" {
		u.Host += ":443"
	}
	conn, err := dial(ctx, u.Host, cfg, []string{http3.NextProtoH3})
	if err != nil {
		return nil, fmt.Errorf("dial WebTransport %q: %w", u.Redacted(), err)
	}
	session, err := openSession(ctx, conn, u, cfg)
	if err != nil {
		_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
		return nil, fmt.Errorf("dial WebTransport %q: %w", u.Redacted(), err)
	}
	return session, nil
}

func dial(ctx context.Context, address string, cfg DialConfig, alpn []string) (*quic.Conn, error) {
	if err := errors.Join(cfg.validate(), validateProtocols(cfg.Protocols)); err != nil {
		return nil, err
	}
	silenceBufferWarning()
	if cfg.ReceiveBuffer != 0 || cfg.SendBuffer != 0 {
		return cfg.dialFromSocket(ctx, address, alpn)
	}
	return quic.DialAddr(ctx, address, cfg.tlsConfig(alpn), cfg.quicConfig())
}

// dialFromSocket dials from a socket whose buffers are set.
func (c DialConfig) dialFromSocket(ctx context.Context, address string, alpn []string) (*quic.Conn, error) {
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	conf := c.tlsConfig(alpn)
	if conf.ServerName == "" {
		conf.ServerName, _, _ = net.SplitHostPort(address)
	}
	tr := &quic.Transport{Conn: udp}
	closeAll := func() { _ = errors.Join(tr.Close(), udp.Close()) }
	conn, err := tr.Dial(ctx, remote, conf, c.quicConfig())
	if err != nil {
		closeAll()
		return nil, err
	}
	context.AfterFunc(conn.Context(), closeAll)
	// After quic-go set sizes of its own, or they would replace ours.
	if _, err := newSocket(udp, c.ReceiveBuffer, c.SendBuffer); err != nil {
		_ = conn.CloseWithError(0, "")
		return nil, err
	}
	return conn, nil
}

// openSession asks for a session on an HTTP/3 connection, which is ended when ctx
// is before the answer came.
func openSession(ctx context.Context, conn *quic.Conn, u *url.URL, cfg DialConfig) (transport.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseWithError(0, "") })
	defer stop()
	session, err := requestSession(ctx, conn, u, cfg)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return session, err
}

func requestSession(ctx context.Context, conn *quic.Conn, u *url.URL, cfg DialConfig) (transport.Conn, error) {
	tr := &http3.Transport{EnableDatagrams: true, AdditionalSettings: clientSettings()}
	client := tr.NewRawClientConn(conn)
	mux := newWebMux(conn, reorderingTime)
	go mux.serve(client.HandleBidirectionalStream, client.HandleUnidirectionalStream)
	request, err := cfg.request(ctx, client, u)
	if err != nil {
		return nil, err
	}
	str, err := client.OpenRequestStream(ctx)
	if err != nil {
		return nil, err
	}
	if err := str.SendRequestHeader(request); err != nil {
		return nil, err
	}
	response, err := str.ReadResponse()
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, &RefusedError{Status: response.StatusCode}
	}
	protocol := choose(cfg.Protocols, response.Header.Values(headerChosen))
	if protocol == "" {
		return nil, errors.New("the server chose none of the offered protocols")
	}
	session := newWebConn(str, conn, cfg.Windows, transport.Info{
		Kind:     transport.WebTransport,
		Protocol: protocol,
		Client:   true,
		HasURI:   true,
		Path:     u.RequestURI(),
		Origin:   cfg.Origin,
		Local:    conn.LocalAddr(),
		Remote:   conn.RemoteAddr(),
	})
	mux.begin(session)
	return session, nil
}

// request is the CONNECT request, in the dialect of the server's settings.
func (c DialConfig) request(ctx context.Context, client *http3.RawClientConn, u *url.URL) (*http.Request, error) {
	select {
	case <-client.ReceivedSettings():
	case <-client.Context().Done():
		return nil, context.Cause(client.Context())
	}
	settings := client.Settings()
	protocol := protocolFor(settings.Other)
	if protocol == "" || !settings.EnableExtendedConnect || !settings.EnableDatagrams {
		return nil, errors.New("the server has no WebTransport")
	}
	header := http.Header{}
	header.Set(headerOffered, quotedList(c.Protocols))
	if c.Origin != "" {
		header.Set("Origin", c.Origin)
	}
	request := &http.Request{Method: http.MethodConnect, Proto: protocol, Host: u.Host, URL: u, Header: header}
	return request.WithContext(ctx), nil
}

func (c DialConfig) tlsConfig(alpn []string) *tls.Config {
	conf := &tls.Config{}
	if c.TLS != nil {
		conf = c.TLS.Clone()
	}
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS13)
	conf.NextProtos = slices.Clone(alpn)
	if len(c.CertificateHashes) > 0 {
		conf.InsecureSkipVerify = true // the hash is the check, in VerifyConnection
		conf.VerifyConnection = c.verifyHash
	}
	return conf
}

func (c DialConfig) verifyHash(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	if hash := sha256.Sum256(leaf.Raw); !slices.Contains(c.CertificateHashes, hash) {
		return fmt.Errorf("the server's certificate has the SHA-256 hash %x, which is none of those given", hash)
	}
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return fmt.Errorf("the server's certificate is valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	return nil
}
