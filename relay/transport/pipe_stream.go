package transport

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// pipeStream is one end's view of a stream; a half that it lacks is nil.
type pipeStream struct {
	send    *pipeHalf
	receive *pipeHalf
}

var _ Stream = (*pipeStream)(nil)

func (s *pipeStream) Write(p []byte) (int, error) { return s.send.write(p) }
func (s *pipeStream) Close() error                { return s.send.close() }
func (s *pipeStream) Reset(code uint64)           { s.send.resetBy(code) }
func (s *pipeStream) Stopped() <-chan struct{}    { return s.send.stopped }
func (s *pipeStream) Read(p []byte) (int, error)  { return s.receive.read(p) }
func (s *pipeStream) Stop(code uint64)            { s.receive.stopBy(code) }
func (s *pipeStream) Aborted() <-chan struct{}    { return s.receive.aborted }
func (s *pipeStream) SetPriority(p Priority)      { s.send.setPriority(p) }

// pipeLink is what the halves of one stream share.
type pipeLink struct {
	opener     *PipeConn
	streams    *pipeStreams
	theirs     *pipeStream // what the peer will accept
	seen       bool        // the peer knows of it
	unfinished int         // halves that still count against the limit
}

func (l *pipeLink) announceLocked() {
	if l.seen {
		return
	}
	l.seen = true
	l.streams.arrived = append(l.streams.arrived, l.theirs)
	l.streams.arrival.Signal()
}

func (l *pipeLink) finishLocked() {
	if l.unfinished--; l.unfinished == 0 {
		l.streams.open--
		l.streams.slots.Signal()
	}
}

// pipeHalf is one direction of one stream. All fields are guarded by the pipe's mutex.
type pipeHalf struct {
	from, to *PipeConn
	link     *pipeLink
	number   uint64 // in the order of opening

	priority Priority
	writing  bool   // a Write has bytes left
	turn     uint64 // when it last took connection credit; the smallest is next among equals

	waiting  bytes.Buffer // written, not yet read: at most the reader's window
	readable *sync.Cond
	fin      bool // the writer closed it
	finished bool // no longer counts against the stream limit
	finRead  bool
	reset    *StreamError // by the writer, as the writer sees it
	stop     *StreamError // by the reader, as the reader sees it
	stopped  chan struct{}
	isClosed bool // stopped is closed
	aborted  chan struct{}
}

func newPipeHalf(from, to *PipeConn, link *pipeLink) *pipeHalf {
	from.opened++
	h := &pipeHalf{
		from: from, to: to, link: link, number: from.opened, priority: DefaultPriority,
		readable: sync.NewCond(from.mu), stopped: make(chan struct{}), aborted: make(chan struct{}),
	}
	from.halves[h] = struct{}{}
	to.halves[h] = struct{}{}
	return h
}

var errPipeWriteClosed = errors.New("write on a closed stream")

func (h *pipeHalf) write(p []byte) (n int, err error) {
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	h.writing = len(p) > 0
	defer h.notWritingLocked()
	for {
		if err := h.writeErrLocked(); err != nil {
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		room := min(h.roomLocked(), int64(len(p)-n))
		if room == 0 {
			h.from.credit.Wait()
			continue
		}
		h.waiting.Write(p[n : n+int(room)])
		h.takenLocked(room)
		n += int(room)
		h.link.announceLocked()
		h.readable.Broadcast()
	}
}

// pipeQuantum is how much of the connection's credit one of several equals takes in its turn.
const pipeQuantum = 16 << 10

// roomLocked is how many bytes the reader's windows still take. The connection's
// go to the best stream that could use them.
func (h *pipeHalf) roomLocked() int64 {
	room := h.streamRoomLocked()
	w := h.to.grant.Windows.Connection
	if w == 0 || room == 0 {
		return room
	}
	for other := range h.from.halves {
		if other == h || other.from != h.from || !other.writing || other.streamRoomLocked() == 0 {
			continue
		}
		if other.beforeLocked(h) {
			return 0
		}
		if other.priority == h.priority {
			room = min(room, pipeQuantum)
		}
	}
	return min(room, w-h.to.unread)
}

func (h *pipeHalf) streamRoomLocked() int64 {
	if w := h.to.grant.Windows.Stream; w > 0 {
		return w - int64(h.waiting.Len())
	}
	return 1 << 62
}

// beforeLocked says whether h goes before other, of the same connection.
func (h *pipeHalf) beforeLocked(other *pipeHalf) bool {
	switch a, b := h.priority, other.priority; {
	case a.Urgency != b.Urgency:
		return a.Urgency < b.Urgency
	case a.Incremental && b.Incremental && h.turn != other.turn:
		return h.turn < other.turn
	}
	return h.number < other.number
}

// takenLocked notes that n bytes of the reader's windows were taken.
func (h *pipeHalf) takenLocked(n int64) {
	h.to.unread += n
	h.from.turns++
	h.turn = h.from.turns
	h.from.sent += uint64(n)
	h.from.credit.Broadcast() // it is another's turn
}

// notWritingLocked leaves the credit to others.
func (h *pipeHalf) notWritingLocked() {
	h.writing = false
	h.from.credit.Broadcast()
}

func (h *pipeHalf) setPriority(p Priority) {
	p.Urgency = min(p.Urgency, MaxUrgency)
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	h.priority = p
	h.from.credit.Broadcast()
}

func (h *pipeHalf) writeErrLocked() error {
	switch {
	case h.reset != nil:
		return h.reset
	case h.from.doneErr != nil:
		return h.from.doneErr
	case h.fin:
		return errPipeWriteClosed
	case h.stop != nil:
		return &StreamError{Code: h.stop.Code, Remote: true}
	}
	return nil
}

func (h *pipeHalf) close() error {
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if h.fin {
		return nil
	}
	if err := h.writeErrLocked(); err != nil {
		return err
	}
	h.fin = true
	h.link.announceLocked()
	h.readable.Broadcast()
	h.stopLocked()
	return nil
}

func (h *pipeHalf) resetBy(code uint64) {
	h.from.mu.Lock()
	defer h.from.mu.Unlock()
	if h.fin || h.reset != nil || h.stop != nil || h.from.doneErr != nil {
		return
	}
	h.reset = &StreamError{Code: code}
	close(h.aborted)
	h.link.announceLocked()
	h.dropLocked()
	h.readable.Broadcast()
	h.from.credit.Broadcast() // the blocked Write
	h.stopLocked()
}

func (h *pipeHalf) read(p []byte) (int, error) {
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	for {
		if h.waiting.Len() > 0 && h.to.doneErr == nil {
			n, _ := h.waiting.Read(p)
			h.to.unread -= int64(n)
			h.from.credit.Broadcast()
			return n, nil
		}
		if err := h.readErrLocked(); err != nil {
			return 0, err
		}
		if len(p) == 0 {
			return 0, nil
		}
		h.readable.Wait()
	}
}

func (h *pipeHalf) readErrLocked() error {
	switch {
	case h.finRead:
		return io.EOF
	case h.stop != nil:
		return h.stop
	case h.to.doneErr != nil:
		return h.to.doneErr
	case h.reset != nil:
		h.finishLocked()
		return &StreamError{Code: h.reset.Code, Remote: true}
	case h.fin:
		h.finRead = true
		h.finishLocked()
		return io.EOF
	}
	return nil
}

func (h *pipeHalf) stopBy(code uint64) {
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	if h.finRead || h.stop != nil || h.to.doneErr != nil {
		return
	}
	h.stop = &StreamError{Code: code}
	h.link.announceLocked()
	h.dropLocked()
	h.readable.Broadcast()
	h.from.credit.Broadcast() // the blocked Write
	h.stopLocked()
	h.finishLocked()
}

// dropLocked throws the unread bytes away and gives their credit back.
func (h *pipeHalf) dropLocked() {
	h.to.unread -= int64(h.waiting.Len())
	h.waiting = bytes.Buffer{}
	h.from.credit.Broadcast()
}

func (h *pipeHalf) stopLocked() {
	if !h.isClosed {
		h.isClosed = true
		close(h.stopped)
	}
}

// finishLocked says that this half no longer counts against the stream limit.
func (h *pipeHalf) finishLocked() {
	if h.finished {
		return
	}
	h.finished = true
	delete(h.from.halves, h)
	delete(h.to.halves, h)
	h.link.finishLocked()
}
