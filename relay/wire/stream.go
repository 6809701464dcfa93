package wire

import (
	"fmt"
	"io"
)

// firstRead is how many bytes of a message are asked for before any has
// arrived. Nearly all control messages are smaller.
const firstRead = 512

// keepBody is the largest buffer, in bytes, that a StreamReader holds on to
// while it waits for the next message.
const keepBody = 4 << 10

// A StreamReader reads varints and length-prefixed messages from a stream. It
// asks the stream for exactly the bytes it needs and holds back none: after
// each call the stream stands right behind what was returned.
type StreamReader struct {
	// Limit is the most bytes that a message's body may have. It may be changed
	// between calls.
	Limit int
	// Form is how the stream's numbers are written.
	Form Form

	r    io.Reader
	head [MaxLeadingOnesLen]byte
	body []byte // reused from message to message
}

// NewStreamReader returns a StreamReader over r. limit is the most bytes that a
// message's body may have; 0 means [MaxControlMessage].
func NewStreamReader(r io.Reader, limit int) *StreamReader {
	if limit == 0 {
		limit = MaxControlMessage
	}
	return &StreamReader{r: r, Limit: limit}
}

// Varint reads one varint, such as a stream type. It returns [io.EOF] itself
// when the stream ended cleanly before it, an error that wraps
// [io.ErrUnexpectedEOF] when it ended inside, and the stream's error otherwise.
func (s *StreamReader) Varint(field string) (uint64, error) {
	if cap(s.body) > keepBody {
		s.body = nil
	}
	if err := s.full(s.head[:1]); err != nil {
		if err == io.EOF { // itself: an error that wraps it is a lost connection's
			return 0, io.EOF
		}
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	n := s.Form.size(s.head[0])
	if err := s.full(s.head[1:n]); err != nil {
		return 0, fmt.Errorf("%s: %w", field, insideMessage(err))
	}
	v, _ := s.Form.Parse(s.head[:n])
	return v, nil
}

// Message reads a length and the body that follows. The slice is valid until
// the next call. It returns [io.EOF] itself when the stream ended cleanly
// before the message; inside, the error wraps [io.ErrUnexpectedEOF]. A declared
// length over Limit is [ErrTooLong] before anything is allocated.
func (s *StreamReader) Message() ([]byte, error) {
	n, err := s.Varint("message length")
	if err != nil {
		return nil, err
	}
	if n > uint64(s.Limit) {
		return nil, fmt.Errorf("message length: %w: %d bytes, limit %d", ErrTooLong, n, s.Limit)
	}
	if err := s.readBody(int(n)); err != nil {
		return nil, fmt.Errorf("message body: %w", insideMessage(err))
	}
	return s.body, nil
}

// Typed reads a type and then a message. Ends and errors are as with
// [StreamReader.Message].
func (s *StreamReader) Typed() (typ uint64, body []byte, err error) {
	if typ, err = s.Varint("message type"); err != nil {
		return 0, nil, err
	}
	body, err = s.Message()
	if err == io.EOF {
		err = fmt.Errorf("message length: %w", io.ErrUnexpectedEOF)
	}
	return typ, body, err
}

// End checks that the stream ends here: nil after a clean end, [ErrLeftover]
// when a byte follows, otherwise the stream's error.
func (s *StreamReader) End() error {
	err := s.full(s.head[:1])
	switch {
	case err == nil:
		return ErrLeftover
	case err == io.EOF:
		return nil
	}
	return err
}

// readBody fills s.body with n bytes. The buffer at most doubles per step, so
// it is never more than twice what has arrived (or firstRead).
func (s *StreamReader) readBody(n int) error {
	s.body = s.body[:0]
	for len(s.body) < n {
		have := len(s.body)
		next := min(n, max(firstRead, 2*have, cap(s.body)))
		s.body = grow(s.body, next)[:next]
		if err := s.full(s.body[have:]); err != nil {
			return err
		}
	}
	return nil
}

// grow returns b with room for exactly n bytes, or b when it has that.
func grow(b []byte, n int) []byte {
	if n <= cap(b) {
		return b
	}
	bigger := make([]byte, len(b), n)
	copy(bigger, b)
	return bigger
}

// full reads len(p) bytes. It is io.EOF only when none came.
func (s *StreamReader) full(p []byte) error {
	_, err := io.ReadFull(s.r, p)
	return err
}

// Message is [StreamReader.Message] for bytes in memory: it returns the
// body at the start of b and the bytes that length and body take. n is 0 with a
// nil error when b ends too early. A declared length over limit is [ErrTooLong]
// as soon as it can be read.
func (f Form) Message(b []byte, limit int) (body []byte, n int, err error) {
	size, n := f.Parse(b)
	switch {
	case n == 0:
		return nil, 0, nil
	case size > uint64(limit):
		return nil, 0, fmt.Errorf("message length: %w: %d bytes, limit %d", ErrTooLong, size, limit)
	case size > uint64(len(b)-n):
		return nil, 0, nil
	}
	end := n + int(size)
	return b[n:end:end], end, nil
}
