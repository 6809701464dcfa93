package lite

import (
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// A peer may give credit for any number of streams and read none of them. Groups
// over the session's limit wait, and the newest comes next when a place is free.
func TestOnlySoManyGroupsAreSentAtATime(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, Config{Role: lite.RolePublisher, Limits: session.Limits{Groups: 2}}, transport.PipeConfig{HasURI: true}, false)
		s.run("open uni mine\n mine write 01 | 01 00\n mine fin\n accept uni setup\n setup want 01 | 04 01 05 01 0a\n setup want fin")
		pub, _ := s.publisher("cam")
		pub.info.MaxAge = time.Minute
		s.run("open bidi a\n a write " + `02 | 12 00 03"cam" 05"video" c8 7530 00 00 00 00`)
		p := pub.producer(t, 0)
		var groups []*model.GroupWriter
		for seq := range uint64(5) {
			g, err := p.Group(seq, model.Window{})
			if err != nil {
				t.Fatal(err)
			}
			if err := g.WriteFrame(t.Context(), []byte{0, 1}, 0, []byte("x")); err != nil {
				t.Fatal(err)
			}
			groups = append(groups, g)
			s.run("wait 10ms")
		}
		s.run(strings.ReplaceAll(`
			accept uni g
			g want 00 | 03 00 00 00 | FRAME
			accept uni h
			h want 00 | 03 00 01 00 | FRAME
			none uni
		`, "FRAME", `00 01 "x"`))
		if err := groups[1].Finish(); err != nil {
			t.Fatal(err)
		}
		s.run(`
			h want fin
			accept uni i
			i want 00 | 03 00 04 00 | 00 01 "x"
			none uni
		`)
		groups[4].Abort(&model.AbortError{Code: 9})
		s.run(`
			i want reset 0x9
			accept uni j
			j want 00 | 03 00 03 00 | 00 01 "x"
			none uni
			a reset 1
		`)
	}, lite.Lite06)
}
