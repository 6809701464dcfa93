package config

import (
	"slices"
	"strings"
	"unicode"
)

// Class says when a changed value takes effect.
type Class string

// The classes.
const (
	// ClassRestart: at the next start.
	ClassRestart Class = "R"
	// ClassLive: at once, when the file changes.
	ClassLive Class = "L"
)

// Key is one setting. Its documentation is docs/configuration.md, which a test
// holds against the keys.
type Key struct {
	// Name is the dotted name in the file, such as "windows.maxIncomingStreams".
	Name string
	// Class says when a changed value takes effect.
	Class Class
	// Help says in one line what it does.
	Help string

	// at returns the value of the key inside c.
	at func(c *Config) value
}

// Flag returns the key's flag without dashes, such as "windows-max-incoming-streams".
func (k Key) Flag() string {
	var b strings.Builder
	runes := []rune(k.Name)
	for i, r := range runes {
		switch {
		case r == '.':
			b.WriteByte('-')
		case unicode.IsUpper(r):
			// A run of capitals is one word: sessionsPerIP is sessions-per-ip.
			if i > 0 && !unicode.IsUpper(runes[i-1]) {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Env returns the key's environment variable, such as "MOQ_WINDOWS_MAX_INCOMING_STREAMS".
func (k Key) Env() string {
	return "MOQ_" + strings.ToUpper(strings.ReplaceAll(k.Flag(), "-", "_"))
}

// Range says which values are accepted, such as "64Ki..16Mi" or "Enabled or Disabled".
func (k Key) Range() string {
	var c Config
	return k.at(&c).accepts()
}

// Default returns the text form of the key's default; empty when there is none.
func (k Key) Default() string {
	c := Default()
	return k.at(&c).String()
}

// Value returns the text form of the key's value in c, the items of a list
// joined by commas; empty when it is not set.
func (k Key) Value(c Config) string { return k.at(&c).String() }

// IsList reports whether the value is a list, whose items a flag or variable
// separates by commas.
func (k Key) IsList() bool {
	var c Config
	switch k.at(&c).(type) {
	case *list, *upstreams:
		return true
	}
	return false
}

// Keys returns every key in the order of the documentation.
func Keys() []Key { return append([]Key(nil), keys...) }

// lookup returns the key of that dotted name.
func lookup(name string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name {
			return k, true
		}
	}
	return Key{}, false
}

// isSection reports whether keys lie below that dotted name.
func isSection(name string) bool {
	for _, k := range keys {
		if strings.HasPrefix(k.Name, name+".") {
			return true
		}
	}
	return false
}

var states = []State{Enabled, Disabled}

// keys is the whole vocabulary. Ranges that one value alone decides are here;
// those that join two keys are in Validate.
var keys = slices.Concat(keysBeforeAuth, authKeys, clusterKeys, keysAfterAuth)

var keysBeforeAuth = []Key{
	{"listen", ClassRestart, "client port, UDP and TCP, as HOST:PORT; port 0 picks a free one", func(c *Config) value { return &address{to: &c.Listen} }},
	{"status.listen", ClassRestart, "port of probes, metrics and status document; empty opens none", func(c *Config) value { return &address{to: &c.Status.Listen, optional: true} }},
	{"status.pprof", ClassRestart, "profiles of the process on the status port, for loopback peers", func(c *Config) value { return oneOf(&c.Status.Pprof, states...) }},
	{"tls.mode", ClassRestart, "where certificates come from", func(c *Config) value { return oneOf(&c.TLS.Mode, Files, SelfSigned) }},
	{"tls.directories", ClassRestart, "directories that each hold tls.crt and tls.key; the first is the default, the others are chosen by server name", func(c *Config) value {
		return &list{to: &c.TLS.Directories, most: 17, what: "directory paths", item: isText}
	}},
	{"protocols", ClassRestart, "protocol versions that are spoken; unset or empty: every released one", func(c *Config) value {
		return &list{to: &c.Protocols, most: 16, what: spoken(), item: isSpoken}
	}},
	{"transports.quic.state", ClassRestart, "raw QUIC on the UDP port", func(c *Config) value { return oneOf(&c.Transports.QUIC.State, states...) }},
	{"transports.quic.initialPacketSize", ClassRestart, "first UDP payload in bytes, before path MTU discovery", func(c *Config) value { return &number{&c.Transports.QUIC.InitialPacketSize, 1200, 1452} }},
	{"transports.quic.idleTimeoutSeconds", ClassRestart, "silence that ends a connection", func(c *Config) value { return &number{&c.Transports.QUIC.IdleTimeoutSeconds, 5, 600} }},
	{"transports.webTransport.state", ClassRestart, "WebTransport on the UDP port; needs QUIC; unset: as QUIC", func(c *Config) value {
		return &choice[State]{to: &c.Transports.WebTransport.State, words: states, unset: true}
	}},
	{"transports.webSocket.state", ClassRestart, "QMux over WebSocket on the TCP port", func(c *Config) value { return oneOf(&c.Transports.WebSocket.State, states...) }},
	{"transports.qmuxDrafts", ClassRestart, "QMux drafts that WebSocket clients may choose from", func(c *Config) value {
		return &list{to: &c.Transports.QMuxDrafts, most: 8, what: "00, 01, 02", item: isOneOf("00", "01", "02")}
	}},
	{"transports.allowedOrigins", ClassRestart, "browser origins that may open WebTransport and WebSocket sessions; * is any, an empty list none", func(c *Config) value {
		return &list{to: &c.Transports.AllowedOrigins, most: 32, what: "* or http(s)://HOST[:PORT]", item: isOrigin}
	}},
	{"windows.stream", ClassRestart, "receive credit of one stream", func(c *Config) value { return &bytesIn{&c.Windows.Stream, 64 * KiB, 128 * MiB} }},
	{"windows.connection", ClassRestart, "receive credit of a session; at least 2 × windows.stream", func(c *Config) value { return &bytesIn{&c.Windows.Connection, 128 * KiB, 256 * MiB} }},
	{"windows.pacingCap", ClassLive, "how far ingest runs ahead of the fastest viewer, whatever the credit", func(c *Config) value { return &bytesIn{&c.Windows.PacingCap, 64 * KiB, 16 * MiB} }},
	{"windows.maxIncomingStreams", ClassRestart, "streams of each direction that a client may have open", func(c *Config) value { return &number{&c.Windows.MaxIncomingStreams, 16, 65536} }},
	{"socketBuffers.receive", ClassRestart, "receive buffer of the UDP socket", func(c *Config) value { return &bytesIn{&c.SocketBuffers.Receive, 208 * KiB, 512 * MiB} }},
	{"socketBuffers.send", ClassRestart, "send buffer of the UDP socket", func(c *Config) value { return &bytesIn{&c.SocketBuffers.Send, 208 * KiB, 512 * MiB} }},
	{"socketBuffers.mode", ClassRestart, "whether preflight raises the node's limits", func(c *Config) value { return oneOf(&c.SocketBuffers.Mode, Verify, RaiseNode) }},
	{"socketBuffers.requirement", ClassRestart, "whether preflight fails when the kernel grants less", func(c *Config) value { return oneOf(&c.SocketBuffers.Requirement, Preferred, Required) }},
	{"cache.maxBytes", ClassLive, "ceiling of all cached groups together; a percentage is of the memory limit", func(c *Config) value { return &sizeIn{&c.Cache.MaxBytes, MiB, TiB} }},
	{"cache.maxAgeSeconds", ClassLive, "longest that a group which is not its track's latest stays", func(c *Config) value { return &number{&c.Cache.MaxAgeSeconds, 0, 3600} }},
	{"limits.sessions", ClassLive, "sessions of the process; 0 is no limit", func(c *Config) value { return &number{&c.Limits.Sessions, 0, maxCount} }},
	{"limits.sessionsPerIP", ClassLive, "sessions of one client address; 0 is no limit", func(c *Config) value { return &number{&c.Limits.SessionsPerIP, 0, maxCount} }},
	{"limits.sessionsPerTenant", ClassLive, "sessions whose root begins with the same path segment; 0 is no limit", func(c *Config) value { return &number{&c.Limits.SessionsPerTenant, 0, maxCount} }},
	{"limits.egressBytesPerSecondPerTenant", ClassLive, "bytes a second to viewers of broadcasts whose path begins with the same segment; more wait; 0 is no limit", func(c *Config) value {
		return &bytesIn{&c.Limits.EgressBytesPerSecondPerTenant, 0, TiB}
	}},
	{"limits.handshakeRate", ClassLive, "connections that are begun each second; 0 is no limit", func(c *Config) value { return &number{&c.Limits.HandshakeRate, 0, maxCount} }},
	{"limits.setupTimeoutSeconds", ClassLive, "how long a connection may take until it is a session or an HTTP request", func(c *Config) value { return &number{&c.Limits.SetupTimeoutSeconds, 1, 600} }},
	{"limits.subscriptionsPerSession", ClassLive, "subscriptions of one session; 0 is no limit", func(c *Config) value { return &number{&c.Limits.SubscriptionsPerSession, 0, maxCount} }},
	{"limits.announcementsPerSession", ClassLive, "announced broadcasts of one session; 0 is no limit", func(c *Config) value { return &number{&c.Limits.AnnouncementsPerSession, 0, maxCount} }},
	{"limits.fetchesPerSession", ClassLive, "groups fetched for one session at a time, more wait; 0 is no limit", func(c *Config) value { return &number{&c.Limits.FetchesPerSession, 0, maxCount} }},
	{"limits.httpFetches", ClassLive, "groups fetched over HTTP at a time; 0 is no limit", func(c *Config) value { return &number{&c.Limits.HTTPFetches, 0, maxCount} }},
	{"limits.httpFetchesPerIP", ClassLive, "groups fetched over HTTP at a time by one client address; 0 is no limit", func(c *Config) value { return &number{&c.Limits.HTTPFetchesPerIP, 0, maxCount} }},
	{"limits.stalledTimeoutSeconds", ClassLive, "how long a viewer may take no byte of what waits for it, until its session is closed", func(c *Config) value { return &number{&c.Limits.StalledTimeoutSeconds, 5, 3600} }},
	{"limits.upstreamTimeoutSeconds", ClassLive, "how long a publisher may take to answer a viewer's request", func(c *Config) value { return &number{&c.Limits.UpstreamTimeoutSeconds, 1, 60} }},
	{"limits.maxFrame", ClassLive, "largest frame; at most limits.groupTail", func(c *Config) value { return &bytesIn{&c.Limits.MaxFrame, 64 * KiB, GiB} }},
	{"limits.groupTail", ClassLive, "most that is held of one group; at least windows.pacingCap", func(c *Config) value { return &bytesIn{&c.Limits.GroupTail, 64 * KiB, GiB} }},
	{"limits.maxControlMessage", ClassLive, "longest control message", func(c *Config) value { return &bytesIn{&c.Limits.MaxControlMessage, 4 * KiB, MiB} }},
}

var keysAfterAuth = []Key{
	{"drain.timeoutSeconds", ClassRestart, "how long sessions may take to leave", func(c *Config) value { return &number{&c.Drain.TimeoutSeconds, 0, 86400} }},
	{"drain.goawaySpreadSeconds", ClassLive, "time over which GOAWAY goes out; unset: min(30, timeout/2)", func(c *Config) value { return &optional{&c.Drain.GoawaySpreadSeconds, 0, 86400} }},
	{"log.level", ClassLive, "least severity that is logged", func(c *Config) value { return oneOf(&c.Log.Level, LevelDebug, LevelInfo, LevelWarn, LevelError) }},
	{"log.format", ClassLive, "form of a log line", func(c *Config) value { return oneOf(&c.Log.Format, FormatJSON, FormatText) }},
}

// maxCount bounds every count: the same field of the Kubernetes type is an int32.
const maxCount = 1<<31 - 1
