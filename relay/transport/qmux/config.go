package qmux

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// Config is what both sides need. Accept and Dial only read it, so one may be
// used for any number of connections.
type Config struct {
	// Protocols are the application tokens that are spoken, such as
	// "moq-lite-06", the preferred first. Required.
	Protocols []string
	// Drafts are the QMux drafts that are spoken, the preferred first. Empty: [Drafts].
	Drafts []Draft
	// Windows are the bytes that we grant the peer: on each stream and on all
	// together. 0: 1 MiB and 4 MiB.
	Windows transport.Windows
	// MaxIncomingStreams is how many streams of each kind the peer may have open
	// at once, and so how many wait to be accepted at most. 0: 1024.
	MaxIncomingStreams int64
	// IdleTimeout ends a connection on which nothing was sent or received, with
	// the smaller value of both sides in force. Drafts 01 and 02 only, on 00 the
	// WebSocket ping alone finds a vanished peer. 0: 30 s; negative: none.
	IdleTimeout time.Duration
	// MaxDatagramFrameSize is what we advertise on drafts 01 and 02, in bytes, at
	// most 16,382. Datagrams up to it are dropped. 0: none are allowed, and one
	// that comes all the same ends the connection.
	MaxDatagramFrameSize int64

	// AllowedOrigins are the browser origins that Accept lets in, such as
	// "https://example.com"; "*" lets in all, an empty list none. Requests without
	// an Origin header do not come from a page and are not asked.
	AllowedOrigins []string

	// TLS is for Dial to wss and https. nil: the system's roots.
	TLS *tls.Config
	// Header is sent with Dial's request in addition to what WebSocket needs.
	Header http.Header
	// Offer replaces the subprotocols that Dial offers. Empty: each of Protocols
	// with each of Drafts.
	Offer []string
}

// Defaults of [Config].
const (
	DefaultStreamWindow       = 1 << 20
	DefaultConnectionWindow   = 4 << 20
	DefaultMaxIncomingStreams = 1024
	DefaultIdleTimeout        = 30 * time.Second
)

// Validate reports all that is wrong, each under the field's name.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Protocols) == 0 {
		wrong("Protocols: at least one is needed")
	}
	for i, d := range c.Drafts {
		if d > Draft02 || slices.Contains(c.Drafts[:i], d) {
			wrong("Drafts: %v is unknown or comes twice", d)
		}
	}
	inRange := func(name string, v, most int64) {
		if v < 0 || v > most {
			wrong("%s: %d is not between 0 and %d", name, v, most)
		}
	}
	inRange("Windows.Stream", c.Windows.Stream, 1<<40)
	inRange("Windows.Connection", c.Windows.Connection, 1<<40)
	inRange("MaxIncomingStreams", c.MaxIncomingStreams, 1<<20)
	inRange("MaxDatagramFrameSize", c.MaxDatagramFrameSize, defaultRecordSize)
	return errors.Join(errs...)
}

func (c *Config) drafts() []Draft {
	if len(c.Drafts) == 0 {
		return Drafts()
	}
	return c.Drafts
}

// params is what we advertise on draft d.
func (c *Config) params(d Draft) params {
	stream := uint64(orDefault(c.Windows.Stream, DefaultStreamWindow))
	streams := uint64(orDefault(c.MaxIncomingStreams, DefaultMaxIncomingStreams))
	p := params{
		idleTimeout:          uint64(max(0, orDefault(c.IdleTimeout, DefaultIdleTimeout).Milliseconds())),
		maxData:              uint64(orDefault(c.Windows.Connection, DefaultConnectionWindow)),
		streamDataBidiLocal:  stream,
		streamDataBidiRemote: stream,
		streamDataUni:        stream,
		streamsBidi:          streams,
		streamsUni:           streams,
		recordSize:           defaultRecordSize,
		resetStreamAt:        d.hasResetStreamAt(),
	}
	if d != Draft00 {
		p.datagramSize = uint64(c.MaxDatagramFrameSize)
	}
	return p
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
