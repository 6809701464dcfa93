package qmux

import (
	"io"
	"sync"
)

// A carrier moves whole records in order. The reader goroutine alone calls next,
// the writer goroutine alone calls send and shut (and ping and pong of a pinger).
type carrier interface {
	// next waits for a record and returns a reader of its body, valid until the
	// next call. What was not read of the one before is discarded. A violation
	// (*transport.CloseError) leaves the carrier usable, so that it can be
	// answered; any other error is the carrier's end.
	next() (io.Reader, error)
	// send writes one record: b[room:]. It may use b[:room] for a head of its
	// own, may change b, and does not keep it.
	send(b []byte) error
	// shut says goodbye in the carrier's own way and sends nothing afterwards.
	shut()
	// close ends the carrier at once and unblocks next and send. It may be
	// called from any goroutine, more than once.
	close()
}

// A pinger is a carrier that can find out by itself whether the peer is alive.
type pinger interface {
	// watch is called once, before next. heard is then called on every sign of
	// life that is no record, and asked with what the peer wants echoed in a pong;
	// both on the reader's goroutine.
	watch(heard func(), asked func(payload []byte))
	ping() error
	pong(payload []byte) error
}

// room is how many bytes before a record a carrier may use for its own head: the
// longest that WebSocket has.
const room = 14

// maxRecord is the largest record of any draft, received or sent.
const maxRecord = maxFrameSize

// A buffer holds one record while it is sent or received, and one byte more, by
// which a record is known to be too large.
type buffer [room + maxRecord + 1]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}
