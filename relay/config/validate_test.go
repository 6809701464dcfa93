package config

import (
	"slices"
	"testing"
)

// valid is the least that a relay must be told.
func valid() Config {
	c := Default()
	c.Auth.Mode = AuthNone
	c.TLS.Directories = []string{"/tls"}
	return c
}

func TestTheDefaultsLackOnlyWhatMustBeAsked(t *testing.T) {
	want := "auth.mode: is required; accepted: None, JWT\n" +
		"tls.directories: is required when tls.mode is Files; accepted: 1 to 17 directory paths"
	if err := Default().Validate(); err == nil || err.Error() != want {
		t.Errorf("Default().Validate() = %v, want %s", err, want)
	}
	if err := valid().Validate(); err != nil {
		t.Errorf("with both set: %v", err)
	}
	if err := Development().Validate(); err != nil {
		t.Errorf("Development().Validate() = %v", err)
	}
}

func TestEachBoundIsCheckedOnBothSides(t *testing.T) {
	tests := []struct {
		key       string
		good, bad []string
	}{
		{"listen", []string{":4443", "127.0.0.1:0", "[::1]:65535", "localhost:1"}, []string{"", "4443", ":65536", ":-1", ":http", "::1:4443", "a b:1", ":04443", "http://x:1"}},
		{"status.listen", []string{"", ":9090"}, []string{"9090", ":99999"}},
		{"status.pprof", []string{"Enabled", "Disabled"}, []string{"", "true"}},
		{"protocols", []string{"", "moq-lite-03", "moq-lite-06,moq-lite-06-wip", "moq-lite-07-wip"}, []string{"moq-lite-02", "moqt-19", "moq-lite-06,moq-lite-06", "moq-lite-07"}},
		{"transports.quic.initialPacketSize", []string{"1200", "1452"}, []string{"1199", "1453", "", "1200.0"}},
		{"transports.quic.idleTimeoutSeconds", []string{"5", "600"}, []string{"4", "601", "30s"}},
		{"transports.qmuxDrafts", []string{"00", "02,01"}, []string{"", "03", "0", "00,00"}},
		{"transports.allowedOrigins", []string{"", "*", "https://example.com", "http://localhost:8080,https://a"}, []string{"example.com", "https://example.com/", "https://a/b", "https://*.example.com", "ftp://a", "null", "https://a@b"}},
		{"windows.stream", []string{"64Ki", "2Mi"}, []string{"65535", "134217729", "-1", "banana"}},
		{"windows.connection", []string{"2Mi", "256Mi"}, []string{"2097151", "268435457"}},
		{"windows.pacingCap", []string{"64Ki", "16Mi"}, []string{"65535", "16777217"}},
		{"windows.maxIncomingStreams", []string{"16", "65536"}, []string{"15", "65537"}},
		{"socketBuffers.receive", []string{"208Ki", "512Mi"}, []string{"212991", "536870913", "0"}},
		{"socketBuffers.send", []string{"208Ki", "512Mi"}, []string{"212991", "536870913"}},
		{"socketBuffers.mode", []string{"Verify", "RaiseNode"}, []string{"Auto", "ForceSocket", "", "verify"}},
		{"socketBuffers.requirement", []string{"Preferred", "Required"}, []string{"required"}},
		{"cache.maxBytes", []string{"1Mi", "1Ti", "1%", "100%"}, []string{"1048575", "1025Gi", "0", "0%", "101%", ""}},
		{"cache.maxAgeSeconds", []string{"0", "3600"}, []string{"-1", "3601"}},
		{"limits.sessions", []string{"0", "2147483647"}, []string{"-1", "2147483648"}},
		{"limits.handshakeRate", []string{"0", "2147483647"}, []string{"-1", "1.5"}},
		{"limits.setupTimeoutSeconds", []string{"1", "600"}, []string{"0", "601", "10s"}},
		{"limits.fetchesPerSession", []string{"0", "2147483647"}, []string{"-1"}},
		{"limits.httpFetches", []string{"0", "2147483647"}, []string{"-1"}},
		{"limits.httpFetchesPerIP", []string{"0", "2147483647"}, []string{"-1"}},
		{"limits.sessionsPerTenant", []string{"0", "2147483647"}, []string{"-1"}},
		{"limits.egressBytesPerSecondPerTenant", []string{"0", "100M", "1Ti"}, []string{"-1", "1025Gi"}},
		{"limits.stalledTimeoutSeconds", []string{"5", "3600"}, []string{"0", "4", "3601"}},
		{"limits.upstreamTimeoutSeconds", []string{"1", "60"}, []string{"0", "61"}},
		{"limits.maxFrame", []string{"64Ki", "32Mi"}, []string{"65535", "33554433", "1025Mi"}},
		{"limits.groupTail", []string{"32Mi", "1Gi"}, []string{"65535", "1025Mi"}},
		{"limits.maxControlMessage", []string{"4Ki", "1Mi"}, []string{"4095", "1048577"}},
		{"auth.mode", []string{"None"}, []string{"", "JWT", "none", "jwt"}},
		{"drain.timeoutSeconds", []string{"0", "86400"}, []string{"-1", "86401"}},
		{"drain.goawaySpreadSeconds", []string{"0", "300"}, []string{"-1", "301", "86401"}},
		{"log.level", []string{"debug", "error"}, []string{"trace", "INFO", ""}},
		{"log.format", []string{"text", "json"}, []string{"logfmt"}},
	}
	for _, tt := range tests {
		for _, text := range slices.Concat(tt.good, tt.bad) {
			base := valid()
			_, err := Source{Base: &base, Flags: map[string]string{tt.key: text}}.load(nil, nil)
			if good := slices.Contains(tt.good, text); (err == nil) != good {
				t.Errorf("%s: %q is accepted: %v, want %v (%v)", tt.key, text, err == nil, good, err)
			}
			if err != nil && (len(AsFaults(err)) != 1 || AsFaults(err)[0].Key != tt.key) {
				t.Errorf("%s: %q gives not one fault of that key: %v", tt.key, text, err)
			}
		}
	}
}

func TestRulesBetweenKeysNameTheKeyAndTheFigures(t *testing.T) {
	five := 5
	tests := []struct {
		name   string
		change func(c *Config)
		want   string
	}{
		{"connection under two streams", func(c *Config) { c.Windows.Stream = 2 << 20; c.Windows.Connection = 3 << 20 }, "windows.connection: 3145728 is less than 2 × windows.stream (2 × 2097152 = 4194304)"},
		{"no transport", func(c *Config) {
			c.Transports.QUIC.State, c.Transports.WebSocket.State = Disabled, Disabled
		}, "transports.quic.state: Disabled, and transports.webSocket.state too: at least one transport must be Enabled"},
		{"WebTransport without QUIC", func(c *Config) {
			c.Transports.QUIC.State, c.Transports.WebTransport.State = Disabled, Enabled
		}, "transports.webTransport.state: Enabled needs transports.quic.state Enabled"},
		{"WebSocket without a draft", func(c *Config) { c.Transports.QMuxDrafts = nil }, "transports.qmuxDrafts: an empty list with transports.webSocket.state Enabled; accepted: at least one of 00, 01, 02"},
		{"self-signed with files", func(c *Config) { c.TLS.Mode = SelfSigned }, "tls.directories: must be empty when tls.mode is SelfSigned"},
		{"a frame over the tail", func(c *Config) { c.Limits.MaxFrame = 33 << 20 }, "limits.maxFrame: 33Mi is more than limits.groupTail (32Mi)"},
		{"a tail under the pacing cap", func(c *Config) {
			c.Limits.MaxFrame, c.Limits.GroupTail = 1<<20, 8<<20
		}, "windows.pacingCap: 16Mi is more than limits.groupTail (8Mi)"},
		{"spread over the timeout", func(c *Config) { c.Drain.TimeoutSeconds = 4; c.Drain.GoawaySpreadSeconds = &five }, "drain.goawaySpreadSeconds: 5 is more than drain.timeoutSeconds (4)"},
	}
	for _, tt := range tests {
		c := valid()
		tt.change(&c)
		if err := c.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestAnEmptyConfigIsRefusedKeyByKey(t *testing.T) {
	faults := AsFaults(Config{}.Validate())
	var names []string
	for _, f := range faults {
		names = append(names, f.Key)
	}
	want := []string{
		"listen", "status.pprof", "tls.mode", "transports.quic.state", "transports.quic.initialPacketSize", "transports.quic.idleTimeoutSeconds",
		"transports.webSocket.state", "windows.stream", "windows.connection", "windows.pacingCap", "windows.maxIncomingStreams",
		"socketBuffers.receive", "socketBuffers.send", "socketBuffers.mode", "socketBuffers.requirement",
		"limits.setupTimeoutSeconds", "limits.stalledTimeoutSeconds", "limits.upstreamTimeoutSeconds", "limits.maxFrame", "limits.groupTail", "limits.maxControlMessage",
		"auth.mode", "log.level", "log.format",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the faults are of %v\nwant %v", names, want)
	}
}

func TestUnsetValuesAreFilled(t *testing.T) {
	tests := []struct{ timeout, spread int }{{300, 30}, {61, 30}, {60, 30}, {59, 29}, {5, 2}, {1, 0}, {0, 0}}
	for _, tt := range tests {
		c := valid()
		c.Drain.TimeoutSeconds = tt.timeout
		if got := c.Live().GoawaySpreadSeconds; got != tt.spread {
			t.Errorf("a timeout of %d s spreads GOAWAY over %d s, want %d", tt.timeout, got, tt.spread)
		}
	}
	c := valid()
	c.Transports.QUIC.State = Disabled
	if got := c.filled().Transports.WebTransport.State; got != Disabled {
		t.Errorf("WebTransport is %s without QUIC, want Disabled", got)
	}
	if got := c.filled().Protocols; !slices.Equal(got, Released()) {
		t.Errorf("protocols are %v, want every released one", got)
	}
	c.Cache.MaxBytes = Size{}
	if got := c.Live().Cache.MaxBytes.String(); got != "50%" {
		t.Errorf("cache.maxBytes is %s, want 50%%", got)
	}
}
