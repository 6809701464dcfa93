package lite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// acceptStreams serves each bidirectional stream of the peer, until the session or
// its connection ends.
func (s *Session) acceptStreams() {
	for {
		st, err := s.conn.AcceptStream(s.ctx)
		if err != nil {
			s.lost(err)
			return
		}
		st.SetPriority(session.Control)
		s.tasks.Go(func() { s.serveStream(st) })
	}
}

// acceptReceiveStreams serves each unidirectional stream of the peer.
func (s *Session) acceptReceiveStreams() {
	before := make(chan struct{})
	close(before)
	for {
		st, err := s.conn.AcceptReceiveStream(s.ctx)
		if err != nil {
			s.lost(err)
			return
		}
		t := turn{before: before, done: make(chan struct{})}
		before = t.done
		s.tasks.Go(func() {
			defer t.pass()
			s.serveReceiveStream(st, &t)
		})
	}
}

// turn is the place of a stream in the order in which they came.
type turn struct {
	before <-chan struct{} // closed when the stream before has done its part
	done   chan struct{}
	passed bool
}

// pass lets the next stream go on.
func (t *turn) pass() {
	if !t.passed {
		t.passed = true
		close(t.done)
	}
}

// wait waits for the stream before, for at most limit.
func (t *turn) wait(limit time.Duration) {
	select {
	case <-t.before:
		return
	default:
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.before:
	case <-timer.C:
	}
}

// lost ends the session when its connection cannot go on.
func (s *Session) lost(err error) {
	if end := s.conn.Err(); end != nil {
		err = end
	}
	if s.ctx.Err() == nil {
		s.fail(fmt.Errorf("accept stream: %w", err))
	}
}

// errUnknownStream says that a stream's type is not one of the version's.
var errUnknownStream = errors.New("unknown stream type")

// serveStream serves one bidirectional stream to its end.
func (s *Session) serveStream(st transport.Stream) {
	in := s.version.Reader(st, s.cfg.Limits.ControlMessage)
	typ, err := in.Varint("stream type")
	if err == nil {
		err = s.serveType(lite.BidiType(typ), st, in)
	}
	if err == nil {
		return
	}
	code := s.conclude("stream", lite.BidiType(typ), err)
	st.Reset(code)
	st.Stop(code)
}

// serveType serves a stream of the given type, behind the type. With a nil error
// it has ended both directions, otherwise neither.
func (s *Session) serveType(typ lite.BidiType, st transport.Stream, in *wire.StreamReader) error {
	if !typ.In(s.version) {
		return errUnknownStream
	}
	switch typ {
	case lite.BidiAnnounce:
		return s.serveAnnounce(st, in)
	case lite.BidiSubscribe:
		return s.serveSubscribe(st, in)
	case lite.BidiTrack:
		return s.serveTrack(st, in)
	case lite.BidiGoaway:
		return s.serveGoaway(st, in)
	case lite.BidiFetch:
		return s.serveFetch(st, in)
	case lite.BidiProbe:
		return s.serveProbe(st, in)
	case lite.BidiAuth:
		return s.serveAuth(st, in)
	}
	return errUnknownStream
}

// serveReceiveStream serves one unidirectional stream to its end.
func (s *Session) serveReceiveStream(st transport.ReceiveStream, t *turn) {
	st = groupStream{st, s}
	in := session.OpenBuffer(st)
	defer session.CloseBuffer(in)
	typ, err := wire.ReadVarint(in)
	if err == nil {
		switch kind := lite.UniType(typ); {
		case !kind.In(s.version):
			err = errUnknownStream
		case kind == lite.UniSetup:
			err = s.receiveSetup(in)
			if refused := s.settle(""); err == nil {
				err = refused
			}
		default:
			err = s.receiveGroup(st, in, t)
		}
	}
	if err != nil {
		st.Stop(s.conclude("unidirectional stream", lite.UniType(typ), err))
	}
}

// conclude decides what the error of one stream costs, and returns the code that
// the stream ends with.
func (s *Session) conclude(kind string, typ fmt.Stringer, err error) uint64 {
	if fault := sessionFault(kind, typ, err); fault != nil {
		s.fail(fault)
		return uint64(lite.StreamInternalError)
	}
	code := session.StreamCode(err)
	switch {
	case s.ctx.Err() != nil: // the reset may arrive before the connection's end does
		return uint64(lite.StreamSessionClosed)
	case peerLeft(err):
		return uint64(lite.StreamCancelled)
	case errors.Is(err, errUnknownStream):
		s.counters.Unknown.Add(1)
		code = uint64(lite.StreamInternalError)
	case unreadable(err), errors.Is(err, io.ErrUnexpectedEOF):
		s.counters.Malformed.Add(1)
		code = uint64(lite.StreamInternalError)
	case errors.Is(err, lite.ErrRefused):
		code = uint64(lite.StreamUnroutable)
	}
	s.log.Debug(kind+" ended", "type", typ.String(), "error", err, "code", lite.StreamCode(code).String())
	return code
}

// sessionFault returns the fault for which the session ends, or nil where only
// the stream does.
func sessionFault(kind string, typ fmt.Stringer, err error) *Error {
	if fault, ok := errors.AsType[*Error](err); ok {
		return fault
	}
	if errors.Is(err, lite.ErrViolation) || errors.Is(err, wire.ErrTooLong) {
		return violation("%v %s: %w", typ, kind, err)
	}
	return nil
}

// peerLeft reports whether a stream ended by the peer's doing, or before it began.
func peerLeft(err error) bool {
	ended, ok := errors.AsType[*transport.StreamError](err)
	return err == io.EOF || ok && ended.Remote
}

// message reads the one message that a request stream starts with.
func message(in *wire.StreamReader, name string) ([]byte, error) {
	body, err := in.Message()
	if err == io.EOF {
		return nil, fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return body, nil
}

// untilEnd waits for the end of the peer's direction. Bytes in it are an error,
// a reset is none.
func untilEnd(in *wire.StreamReader) error {
	err := in.End()
	if err == nil || peerLeft(err) {
		return nil
	}
	return err
}

// abandon ends both directions of a stream when ctx is done, so that what is
// blocked on it returns. The returned function calls it off.
func abandon(ctx context.Context, st transport.Stream) (off func() bool) {
	return context.AfterFunc(ctx, func() {
		st.Reset(uint64(lite.StreamCancelled))
		st.Stop(uint64(lite.StreamCancelled))
	})
}
