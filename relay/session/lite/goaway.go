package lite

import (
	"sync"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// GoAway asks the peer to leave, and refuses its new requests for tracks from now
// on; what runs goes on, and on a link that [Link].Stays all does. uri is where to go instead, "" for nowhere in
// particular; only servers send one. 03 has no way to say it: the session only
// stops taking requests. Later calls do nothing.
func (s *Session) GoAway(uri string) {
	if s.draining.Swap(true) {
		return
	}
	if s.conn.Info().Client {
		uri = ""
	}
	s.farewell.say(func() { s.sayGoaway(uri) })
}

// farewell keeps our GOAWAY until the session has said SETUP.
type farewell struct {
	mu  sync.Mutex
	run func(func()) bool // runs a task of the session; nil before
	due []func()          // wait for run
}

// say runs goaway as soon as that may be.
func (f *farewell) say(goaway func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == nil {
		f.due = append(f.due, goaway)
		return
	}
	f.run(goaway)
}

// begin says that from now on tasks may run.
func (f *farewell) begin(run func(func()) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = run
	for _, due := range f.due {
		run(due)
	}
	f.due = nil
}

// sayGoaway writes GOAWAY. The FIN comes when nothing is asked for any more: it says
// that we are ready to end. A link that stays open has none.
func (s *Session) sayGoaway(uri string) {
	if !s.version.HasGoaway() {
		return
	}
	st, err := s.openStream(s.ctx)
	if err != nil {
		return
	}
	defer abandon(s.ctx, st)()
	msg := lite.Goaway{URI: uri}
	b, err := msg.Append(wire.AppendVarint(nil, uint64(lite.BidiGoaway)), s.version)
	if err != nil {
		s.log.Warn("GOAWAY not sent", "error", err)
		st.Reset(uint64(lite.StreamInternalError))
		return
	}
	if _, err := st.Write(b); err != nil {
		s.log.Debug("GOAWAY not sent", "error", err)
		return
	}
	s.counters.GoawaySent.Add(1)
	if !s.stays() {
		select {
		case <-s.work.rest():
			_ = st.Close()
		case <-s.ctx.Done():
		}
	}
	// A client may end its half at once and stay: that is its business.
	_ = untilEnd(s.version.Reader(st, 0))
}

// serveGoaway takes the peer's GOAWAY: nothing new is opened there, its routes
// become the last choice, and what runs goes on until the peer closes.
func (s *Session) serveGoaway(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "GOAWAY")
	if err != nil {
		return err
	}
	msg, err := lite.DecodeGoaway(body, s.version)
	if err != nil {
		return err
	}
	if msg.URI != "" && !s.conn.Info().Client && s.version >= lite.Lite06 {
		return violation("GOAWAY: a client named a URI")
	}
	switch first := !s.goneAway.Swap(true); {
	case first:
		s.leavePeer(msg.URI)
	case s.version >= lite.Lite06:
		return violation("a second GOAWAY")
	}
	if err := untilEnd(in); err != nil {
		return err
	}
	return st.Close()
}

// leavePeer acts on the peer's GOAWAY. [Session.Pull] and [Session.Fetch] refuse
// from now on.
func (s *Session) leavePeer(uri string) {
	s.counters.GoawayReceived.Add(1)
	s.log.Info("the peer is going away", "uri", clip(uri))
	s.heard.reprice()
	if s.cfg.OnGoaway != nil {
		s.cfg.OnGoaway(uri)
	} else if s.conn.Info().Client && !s.stays() {
		s.Leave()
	}
}

// clip shortens what a peer wrote for the log.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
