package quic

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/moqrelay/operator/relay/transport"
)

// Settings are what listening and dialling have in common.
type Settings struct {
	// Windows is what we grant the peer, in bytes. Zero: 1 MiB and 4 MiB.
	Windows transport.Windows
	// MaxStreams is how many streams of each kind the peer may have open at
	// once; 0: 1024. On WebTransport the client's own HTTP/3 streams are among
	// them: one bidirectional and one unidirectional.
	MaxStreams int64
	// IdleTimeout ends a connection whose peer is silent; 0: 30 s.
	IdleTimeout time.Duration
	// KeepAlive is how often a silent connection is probed; 0: 5 s.
	KeepAlive time.Duration
	// InitialPacketSize in bytes, 1200 to 1452; 0: 1280. It grows by discovery.
	InitialPacketSize uint16
}

// Config describes a [Listener].
type Config struct {
	Settings
	// Address is HOST:PORT of the UDP socket. An empty host is every address,
	// IPv6 and IPv4, or IPv4 alone where the machine has no IPv6; port 0 picks one.
	Address string
	// TLS has the certificates (Certificates or GetCertificate), and with ClientAuth
	// and ClientCAs those of clients are verified; GetConfigForClient may choose
	// another one for each. It is copied; NextProtos and a lower MinVersion than 1.3
	// are replaced.
	TLS *tls.Config
	// Protocols are the tokens we speak, the one we prefer first. At least one.
	Protocols []string
	// NoQUIC refuses native QUIC, NoWebTransport WebTransport; not both.
	NoQUIC, NoWebTransport bool
	// AllowedOrigins are the browser origins, such as "https://example.com",
	// that may open WebTransport; "*" allows all. Clients that send no origin
	// are no browsers and always allowed.
	AllowedOrigins []string
	// SetupTimeout is asked for each HTTP/3 connection how long it may stay
	// without a session. Nil: 10 s.
	SetupTimeout func() time.Duration
	// ReceiveBuffer and SendBuffer are the socket's buffers in bytes; 0 leaves
	// what quic-go set.
	ReceiveBuffer, SendBuffer int
	// Admit is asked for every new connection before any work is done for it.
	// False refuses it with CONNECTION_REFUSED (0x2), which tells clients to try
	// elsewhere. The address is not verified yet. It must not block. Nil admits all.
	Admit func(remote net.Addr) bool
	// Upgrade is asked before a WebTransport session is accepted, with all that
	// its connection's Info will say. It returns 0 to accept, else the HTTP status
	// of the refusal, such as 503 while draining. Nil accepts all.
	Upgrade func(transport.Info) int

	// Refused is told why a request for WebTransport was refused without asking
	// Upgrade. Nil: nobody is.
	Refused func(Refusal)

	reordering time.Duration // how long streams wait for their session; 0: reorderingTime
}

// A Refusal is why a request for a session was refused here.
type Refusal string

// The refusals.
const (
	RefusedVersion   Refusal = "version"   // none of our protocols was offered
	RefusedOrigin    Refusal = "forbidden" // a page of an origin that is not allowed
	RefusedMalformed Refusal = "malformed" // no request for WebTransport, or a second one, or a peer without datagrams
)

// reorderingTime is how long what arrives before its session, or before the
// client's SETTINGS, waits for them.
const reorderingTime = 5 * time.Second

func (s Settings) withDefaults() Settings {
	if s.Windows == (transport.Windows{}) {
		s.Windows = transport.Windows{Stream: 1 << 20, Connection: 4 << 20}
	}
	if s.MaxStreams == 0 {
		s.MaxStreams = 1024
	}
	if s.IdleTimeout == 0 {
		s.IdleTimeout = 30 * time.Second
	}
	if s.KeepAlive == 0 {
		s.KeepAlive = 5 * time.Second
	}
	return s
}

func (s Settings) validate() error {
	if s.Windows.Stream <= 0 || s.Windows.Connection < s.Windows.Stream {
		return fmt.Errorf("windows: stream %d, connection %d: want 0 < stream <= connection", s.Windows.Stream, s.Windows.Connection)
	}
	if s.MaxStreams < 1 || s.MaxStreams > 1<<60 {
		return fmt.Errorf("max streams: %d: want 1 to 2^60", s.MaxStreams)
	}
	if s.IdleTimeout < 0 || s.KeepAlive < 0 {
		return fmt.Errorf("idle timeout %v, keep alive %v: want none negative", s.IdleTimeout, s.KeepAlive)
	}
	if size := s.InitialPacketSize; size != 0 && (size < 1200 || size > 1452) {
		return fmt.Errorf("initial packet size: %d: want 1200 to 1452", size)
	}
	return nil
}

// quicConfig is for both ends. WebTransport needs datagrams, and partial resets so
// that the head of a stream survives its reset.
func (s Settings) quicConfig() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:       uint64(s.Windows.Stream),
		MaxStreamReceiveWindow:           uint64(s.Windows.Stream),
		InitialConnectionReceiveWindow:   uint64(s.Windows.Connection),
		MaxConnectionReceiveWindow:       uint64(s.Windows.Connection),
		MaxIncomingStreams:               s.MaxStreams,
		MaxIncomingUniStreams:            s.MaxStreams,
		MaxIdleTimeout:                   s.IdleTimeout,
		KeepAlivePeriod:                  s.KeepAlive,
		InitialPacketSize:                s.InitialPacketSize,
		EnableDatagrams:                  true,
		EnableStreamResetPartialDelivery: true,
	}
}

func (c Config) withDefaults() Config {
	c.Settings = c.Settings.withDefaults()
	if c.SetupTimeout == nil {
		c.SetupTimeout = func() time.Duration { return 10 * time.Second }
	}
	if c.Refused == nil {
		c.Refused = func(Refusal) {}
	}
	if c.reordering == 0 {
		c.reordering = reorderingTime
	}
	return c
}

func (c Config) validate() error {
	errs := []error{c.Settings.validate(), validateProtocols(c.Protocols)}
	if c.TLS == nil {
		errs = append(errs, errors.New("TLS: no certificates given"))
	}
	if c.NoQUIC && c.NoWebTransport {
		errs = append(errs, errors.New("native QUIC and WebTransport are both off: nothing to listen for"))
	}
	return errors.Join(errs...)
}

func validateProtocols(tokens []string) error {
	if len(tokens) == 0 {
		return errors.New("protocols: want at least one")
	}
	for _, token := range tokens {
		// "moql" stands for versions that negotiate inside the session, which we do not speak.
		if token == "" || token == "moql" || token == http3.NextProtoH3 {
			return fmt.Errorf("protocols: %q is none that can be negotiated here", token)
		}
	}
	return nil
}

// tlsConfig is the server's: our tokens in our order, HTTP/3 last. What
// GetConfigForClient returns is changed in the same way.
func (c Config) tlsConfig() *tls.Config {
	conf := c.adapt(c.TLS)
	if choose := conf.GetConfigForClient; choose != nil {
		conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return nil, err
			}
			return c.adapt(chosen), nil
		}
	}
	return conf
}

func (c Config) adapt(conf *tls.Config) *tls.Config {
	conf = conf.Clone()
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS13)
	conf.NextProtos = nil
	if !c.NoQUIC {
		conf.NextProtos = slices.Clone(c.Protocols)
	}
	if !c.NoWebTransport {
		conf.NextProtos = append(conf.NextProtos, http3.NextProtoH3)
	}
	return conf
}
