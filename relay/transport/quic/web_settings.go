package quic

// HTTP/3 settings by which the drafts of WebTransport know each other.
const (
	settingWebTransport06 = 0x2b603742 // drafts before 07: Chromium, Firefox
	settingWebTransport   = 0x2c7cf000 // draft 15 and later
	settingMaxSessions    = 0x14e9cd29 // draft 13 and 14: Safari
	settingMaxSessions07  = 0xc671706a // draft 07 to 12
)

// serverSettings say what all browsers of today look for.
func serverSettings() map[uint64]uint64 {
	return map[uint64]uint64{settingWebTransport06: 1, settingWebTransport: 1, settingMaxSessions: 1<<62 - 1}
}

// clientSettings say that we are a client of any draft.
func clientSettings() map[uint64]uint64 {
	return map[uint64]uint64{settingWebTransport06: 1, settingWebTransport: 1}
}

// protocolFor is the :protocol of a request to a server with these settings; empty
// when it has no WebTransport.
func protocolFor(server map[uint64]uint64) string {
	switch {
	case server[settingWebTransport] != 0:
		return "webtransport-h3"
	case server[settingWebTransport06] != 0, server[settingMaxSessions] != 0, server[settingMaxSessions07] != 0:
		return "webtransport"
	}
	return ""
}
