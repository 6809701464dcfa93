package config

// Config is everything that a relay can be told. The zero value is not valid:
// start from [Default] and change what must differ. A field left unset where
// its comment gives that a meaning is not written by [Config.Marshal].
type Config struct {
	// Listen is the HOST:PORT of the client port, UDP and TCP. An empty host is
	// every address; port 0 picks one number that is free on both. Default ":4443".
	Listen string
	// Status is the port for probes, metrics and the status document.
	Status Status
	// TLS says where certificates come from.
	TLS TLS
	// Protocols are the versions that sessions may negotiate, by the names in
	// [Released] and [OnRequest]. Empty: every released one.
	Protocols []string
	// Transports says what carries sessions.
	Transports Transports
	// Windows is the receive credit that clients get.
	Windows Windows
	// SocketBuffers are the kernel's buffers of the UDP socket.
	SocketBuffers SocketBuffers
	// Cache bounds what is kept for viewers that join late.
	Cache Cache
	// Limits bounds what clients may open.
	Limits Limits
	// Auth says who may publish and watch.
	Auth Auth
	// Cluster says which other relays this one is joined to.
	Cluster Cluster
	// Drain says how the relay leaves.
	Drain Drain
	// Log says what is written to stderr.
	Log Log
}

// Status is the status port.
type Status struct {
	// Listen is HOST:PORT, port 0 picks a free one; empty opens no status port.
	// Default "127.0.0.1:9090".
	Listen string
	// Pprof shows the runtime's profiles there, to loopback peers. Default Disabled.
	Pprof State
}

// TLSMode names a source of certificates.
type TLSMode string

// The sources of certificates.
const (
	// Files reads tls.crt and tls.key from TLS.Directories and follows their changes.
	Files TLSMode = "Files"
	// SelfSigned makes a certificate at start: ECDSA P-256, 13 days, renewed at half its life.
	SelfSigned TLSMode = "SelfSigned"
)

// TLS says where certificates come from.
type TLS struct {
	// Mode is Files or SelfSigned. Default Files.
	Mode TLSMode
	// Directories each hold tls.crt and tls.key, as a mounted TLS Secret does.
	// The first is served to clients that name no known host, the others by
	// server name. At most 17; required with Files, refused with SelfSigned.
	Directories []string
}

// State switches a thing on or off.
type State string

// The states.
const (
	Enabled  State = "Enabled"
	Disabled State = "Disabled"
)

// On reports whether the state is Enabled.
func (s State) On() bool { return s == Enabled }

// Transports says what carries sessions. At least one is Enabled.
type Transports struct {
	// QUIC is raw QUIC on the UDP port, protocol by ALPN.
	QUIC QUIC
	// WebTransport shares the UDP port and needs QUIC.
	WebTransport WebTransport
	// WebSocket is QMux over WebSocket on the TCP port.
	WebSocket WebSocket
	// QMuxDrafts are the two-digit QMux drafts that WebSocket clients may
	// choose from: "00", "01", "02". Default all three.
	QMuxDrafts []string
	// AllowedOrigins are the browser origins, such as "https://example.com",
	// that may open WebTransport and WebSocket sessions; "*" is any. Empty: no
	// browser may. Clients that send no Origin are not asked. Default "*"; at most 32.
	AllowedOrigins []string
}

// QUIC is raw QUIC, and what WebTransport runs on.
type QUIC struct {
	// State of raw QUIC. Default Enabled.
	State State
	// InitialPacketSize is the first UDP payload size in bytes, before path MTU
	// discovery: 1200 to 1452. Default 1200.
	InitialPacketSize int
	// IdleTimeoutSeconds ends a connection that is silent for so long: 5 to 600. Default 30.
	IdleTimeoutSeconds int
}

// WebTransport is WebTransport over HTTP/3.
type WebTransport struct {
	// State is unset for the same as QUIC.State. Default unset; Load fills it.
	State State
}

// WebSocket is QMux over WebSocket.
type WebSocket struct {
	// State of the WebSocket carrier. Default Enabled.
	State State
}

// Windows is the receive credit that the relay grants each client.
type Windows struct {
	// Stream is the credit of one stream: 64 KiB to 128 MiB. Default 1 MiB.
	Stream Bytes
	// Connection is the credit of all streams of a session together: at least
	// twice Stream, at most 256 MiB. Default 4 MiB.
	Connection Bytes
	// PacingCap bounds how far ingest runs ahead of the fastest viewer, whatever
	// the credit: 64 KiB to 16 MiB. Default 16 MiB. Live.
	PacingCap Bytes
	// MaxIncomingStreams is how many streams of each direction a client may have
	// open: 16 to 65536. Default 1024.
	MaxIncomingStreams int
}

// BufferMode says what preflight does about the kernel's limits.
type BufferMode string

// The modes of SocketBuffers.
const (
	// Verify opens a socket, asks, reads back, reports.
	Verify BufferMode = "Verify"
	// RaiseNode first raises the node's net.core.rmem_max and wmem_max where they are lower.
	RaiseNode BufferMode = "RaiseNode"
)

// BufferRequirement says what happens when the kernel grants less than asked.
type BufferRequirement string

// The requirements of SocketBuffers.
const (
	// Preferred reports and goes on.
	Preferred BufferRequirement = "Preferred"
	// Required makes preflight exit with code 78.
	Required BufferRequirement = "Required"
)

// SocketBuffers are the kernel's buffers of the UDP socket.
type SocketBuffers struct {
	// Receive and Send are bytes as asked of the kernel, which reports twice
	// what it grants: 208 KiB to 512 MiB. Default 4 MiB each.
	Receive, Send Bytes
	// Mode is read by preflight alone. Default Verify.
	Mode BufferMode
	// Requirement is read by preflight alone. Default Preferred.
	Requirement BufferRequirement
}

// Cache bounds what is kept for viewers that join late.
type Cache struct {
	// MaxBytes is a hard ceiling for all groups together: 1 MiB to 1 TiB, or 1 to
	// 100 percent of the memory limit. Unset: 50 %. Live.
	MaxBytes Size
	// MaxAgeSeconds is the longest that a group which is not its track's latest
	// stays: 0 to 3600. Default 30. Live.
	MaxAgeSeconds int
}

// Limits bounds what clients may open and how long they may take. A count of zero
// is no limit. Live, for what is opened afterwards.
type Limits struct {
	// Sessions bounds all sessions of the process. Default 0.
	Sessions int
	// SessionsPerIP bounds the sessions of one client address. Default 0.
	SessionsPerIP int
	// SessionsPerTenant bounds the sessions whose root begins with one path segment,
	// EgressBytesPerSecondPerTenant what viewers are sent of the broadcasts whose path
	// does, at most 1 TiB. Default 0: none.
	SessionsPerTenant             int
	EgressBytesPerSecondPerTenant Bytes
	// HandshakeRate bounds the connections that are begun each second, all clients
	// together; those beyond it are refused before any cryptography. Default 0.
	HandshakeRate int
	// SetupTimeoutSeconds is how long a connection may take until it is a session or
	// an HTTP request: 1 to 600. Default 10.
	SetupTimeoutSeconds int
	// SubscriptionsPerSession bounds what one client watches at once. Default 1024.
	SubscriptionsPerSession int
	// AnnouncementsPerSession bounds the broadcasts that one client offers at once. Default 1024.
	AnnouncementsPerSession int
	// FetchesPerSession bounds the groups that are fetched for one client at a time;
	// more wait their turn. Default 64.
	FetchesPerSession int
	// HTTPFetches bounds the groups that are fetched over plain HTTP at a time,
	// HTTPFetchesPerIP those of one client address. Default 1024 and 128.
	HTTPFetches, HTTPFetchesPerIP int
	// StalledTimeoutSeconds is how long a client may take no byte of a group while
	// there are some for it, until its session is closed: 5 to 3600. Default 60.
	StalledTimeoutSeconds int
	// UpstreamTimeoutSeconds is how long a publisher may take to answer a viewer's
	// request: 1 to 60. Default 5, which is less than the patience of public clients.
	UpstreamTimeoutSeconds int
	// MaxFrame is the largest frame, at most GroupTail: 64 KiB to 1 GiB. Default 32 MiB.
	MaxFrame Bytes
	// GroupTail is the most that is held of one group, at least Windows.PacingCap:
	// 64 KiB to 1 GiB. Default 32 MiB.
	GroupTail Bytes
	// MaxControlMessage is the longest control message: 4 KiB to 1 MiB. Default 64 KiB.
	MaxControlMessage Bytes
}

// Drain says how the relay leaves.
type Drain struct {
	// TimeoutSeconds is how long sessions may take to move away: 0 to 86400. Default 300.
	TimeoutSeconds int
	// GoawaySpreadSeconds is the time over which GOAWAY goes out, at most
	// TimeoutSeconds. Unset: min(30, TimeoutSeconds/2); Load fills it. Live.
	GoawaySpreadSeconds *int
}

// Level is the least severity that is logged.
type Level string

// The levels.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Format is the form of a log line.
type Format string

// The formats.
const (
	FormatJSON Format = "json"
	FormatText Format = "text"
)

// Log says what is written to stderr. Live.
type Log struct {
	// Level is the least severity that is written. Default info.
	Level Level
	// Format is json or text. Default json.
	Format Format
}

// LiveConfig is what a running relay takes from a changed file without a restart.
type LiveConfig struct {
	// PacingCap is Windows.PacingCap, for streams accepted from now on.
	PacingCap Bytes
	// Cache bounds the cache from now on.
	Cache Cache
	// Limits bound what is opened from now on.
	Limits Limits
	// Auth has the public rules, for sessions that begin from now on.
	Auth LiveAuth
	// Upstreams are the relays elsewhere that are dialled from now on, but for those
	// of the file of upstreams.
	Upstreams []Upstream
	// GoawaySpreadSeconds is the spread of a drain that begins from now on.
	GoawaySpreadSeconds int
	// Log is the level and form of lines from now on.
	Log Log
}

// Live returns the part that reloads, unset values filled.
func (c Config) Live() LiveConfig {
	c = c.filled()
	return LiveConfig{
		PacingCap:           c.Windows.PacingCap,
		Cache:               c.Cache,
		Limits:              c.Limits,
		Auth:                c.Auth.live(),
		Upstreams:           c.Cluster.Upstreams,
		GoawaySpreadSeconds: *c.Drain.GoawaySpreadSeconds,
		Log:                 c.Log,
	}
}

// Released returns the protocol versions that are spoken unless Protocols says
// otherwise, newest first.
func Released() []string {
	return []string{"moq-lite-06", "moq-lite-05", "moq-lite-04", "moq-lite-03"}
}

// OnRequest returns the unreleased protocol versions that are spoken only when
// Protocols names them.
func OnRequest() []string {
	return []string{"moq-lite-06-wip", "moq-lite-07-wip"}
}

// Default returns the configuration of a relay that was told nothing. It is not
// valid as it is: Auth.Mode and TLS.Directories have no default.
func Default() Config {
	return Config{
		Listen: ":4443",
		Status: Status{Listen: "127.0.0.1:9090", Pprof: Disabled},
		TLS:    TLS{Mode: Files},
		Transports: Transports{
			QUIC:           QUIC{State: Enabled, InitialPacketSize: 1200, IdleTimeoutSeconds: 30},
			WebSocket:      WebSocket{State: Enabled},
			QMuxDrafts:     []string{"00", "01", "02"},
			AllowedOrigins: []string{"*"},
		},
		Windows: Windows{
			Stream:             1 << 20,
			Connection:         4 << 20,
			PacingCap:          16 << 20,
			MaxIncomingStreams: 1024,
		},
		SocketBuffers: SocketBuffers{Receive: 4 << 20, Send: 4 << 20, Mode: Verify, Requirement: Preferred},
		Cache:         Cache{MaxBytes: Size{Percent: 50}, MaxAgeSeconds: 30},
		Limits: Limits{
			SetupTimeoutSeconds:     10,
			SubscriptionsPerSession: 1024,
			AnnouncementsPerSession: 1024,
			FetchesPerSession:       64,
			HTTPFetches:             1024,
			HTTPFetchesPerIP:        128,
			StalledTimeoutSeconds:   60,
			UpstreamTimeoutSeconds:  5,
			MaxFrame:                32 << 20,
			GroupTail:               32 << 20,
			MaxControlMessage:       64 << 10,
		},
		Drain: Drain{TimeoutSeconds: 300},
		Log:   Log{Level: LevelInfo, Format: FormatJSON},
	}
}

// Development returns the defaults of a relay on a developer's machine: a
// self-signed certificate, open to everyone, gone at once when told to stop.
func Development() Config {
	c := Default()
	c.TLS.Mode = SelfSigned
	c.Auth.Mode = AuthNone
	c.Drain.TimeoutSeconds = 0
	c.Log.Format = FormatText
	return c
}

// filled returns c with what was left unset given its value.
func (c Config) filled() Config {
	if len(c.Protocols) == 0 {
		c.Protocols = Released()
	}
	if c.Transports.WebTransport.State == "" {
		c.Transports.WebTransport.State = c.Transports.QUIC.State
	}
	if c.Cache.MaxBytes == (Size{}) {
		c.Cache.MaxBytes = Size{Percent: 50}
	}
	if c.Drain.GoawaySpreadSeconds == nil {
		spread := min(30, c.Drain.TimeoutSeconds/2)
		c.Drain.GoawaySpreadSeconds = &spread
	}
	return c
}
