package lite

import (
	"errors"
	"sync"

	"github.com/moqrelay/operator/relay/wire/lite"
)

// errLeft ends a session that has nothing more to do; see [Session.Leave].
var errLeft = errors.New("nothing is asked for any more")

// Leave ends the session with NO_ERROR as soon as nothing is asked for over it, in
// either direction, and returns at once. Run then returns nil. A client that was told
// GOAWAY does so by itself, unless [Config.OnGoaway] is set: what that calls decides.
func (s *Session) Leave() {
	s.farewell.say(func() {
		select {
		case <-s.work.rest():
			s.fail(&Error{Code: lite.SessionNoError, Err: errLeft})
		case <-s.ctx.Done():
		}
	})
}

// work counts what is asked for over a session: tracks and groups, by either side.
type work struct {
	mu      sync.Mutex
	running int
	rested  chan struct{} // closed when running is 0; nil: nobody waits for that
}

func (w *work) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
}

func (w *work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running--; w.running == 0 && w.rested != nil {
		close(w.rested)
		w.rested = nil
	}
}

// rest returns a channel that is closed when nothing runs.
func (w *work) rest() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rested != nil {
		return w.rested
	}
	rested := make(chan struct{})
	if w.running == 0 {
		close(rested)
	} else {
		w.rested = rested
	}
	return rested
}
