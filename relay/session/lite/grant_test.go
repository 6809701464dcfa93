package lite

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// patterns are those of their text forms.
func patterns(t *testing.T, texts ...string) (out []model.Pattern) {
	t.Helper()
	for _, text := range texts {
		p, err := model.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// granting is a server that grants the same to everyone.
func granting(origin *model.Origin, g session.Grant) Config {
	return Config{Origin: origin, Authorize: func(context.Context, string) (session.Grant, error) { return g, nil }}
}

// everyVersion runs a test in a bubble for each version.
func everyVersion(t *testing.T, test func(t *testing.T, v lite.Version)) {
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, v) })
		})
	}
}

func TestASessionEndsAtTheSecondItsGrantExpires(t *testing.T) {
	everyVersion(t, func(t *testing.T, v lite.Version) {
		g := session.Everything("")
		g.Expires = time.Now().Add(90 * time.Second)
		conn, ours := transport.Pipe(transport.PipeConfig{Protocol: v.String()})
		b := newBench(t)
		defer b.end()
		b.run(conn, v, Config{Origin: newOrigin(1)})
		b.run(ours, v, granting(newOrigin(2), g))
		advance(90*time.Second - time.Nanosecond)
		synctest.Wait()
		if err := conn.Err(); err != nil {
			t.Fatalf("a nanosecond before its end the session has ended: %v", err)
		}
		advance(time.Nanosecond)
		synctest.Wait()
		closed, ok := errors.AsType[*transport.CloseError](conn.Err())
		if !ok || closed.Code != uint64(lite.SessionUnauthorized) || !strings.Contains(closed.Reason, "expired") {
			t.Errorf("at its end: %v, want UNAUTHORIZED (0x2)", conn.Err())
		}
	})
}

func TestAClientIsAskedForItsGrantOnceWithThePathThatItNames(t *testing.T) {
	everyVersion(t, func(t *testing.T, v lite.Version) {
		for _, uri := range []bool{false, true} {
			var asked []string
			cfg := Config{Origin: newOrigin(2), Authorize: func(_ context.Context, path string) (session.Grant, error) {
				asked = append(asked, path)
				return session.Everything("room"), nil
			}}
			client := Config{Origin: newOrigin(1)}
			pipe := transport.PipeConfig{HasURI: uri}
			want := "/room?jwt=x"
			switch {
			case uri:
				pipe.Path = want
			case v.HasSetup():
				client.RequestPath = want
			default:
				want = "" // 03 and 04 cannot say it
			}
			b := newBench(t)
			b.connect(v, client, cfg, pipe)
			advance(time.Minute)
			b.end()
			if len(asked) != 1 || asked[0] != want {
				t.Errorf("with a URI: %v: asked for %q, want %q once", uri, asked, want)
			}
		}
	})
}

func TestARefusedClientIsClosedWithTheReasonAndNothingOfItIsKept(t *testing.T) {
	everyVersion(t, func(t *testing.T, v lite.Version) {
		origin, theirs := newOrigin(2), newOrigin(1)
		conn, ours := transport.Pipe(transport.PipeConfig{Protocol: v.String()})
		b := newBench(t)
		defer b.end()
		b.announce(theirs, "cam", model.Info{}, idle)
		refuse := func(context.Context, string) (session.Grant, error) {
			return session.Grant{}, errors.New("no such key")
		}
		b.run(conn, v, Config{Origin: theirs})
		b.run(ours, v, Config{Origin: origin, Authorize: refuse})
		advance(time.Minute)
		closed, ok := errors.AsType[*transport.CloseError](conn.Err())
		if !ok || closed.Code != uint64(lite.SessionUnauthorized) || !strings.Contains(closed.Reason, "no such key") || !closed.Remote {
			t.Errorf("the client's connection ended with %v, want UNAUTHORIZED (0x2) and the reason", conn.Err())
		}
		if routes := origin.Routes(); len(routes) != 0 {
			t.Errorf("its announcements are kept: %v", routes)
		}
	})
}

func TestNothingIsUsedBeforeTheGrantIsKnown(t *testing.T) {
	everyVersion(t, func(t *testing.T, v lite.Version) {
		origin, theirs := newOrigin(2), newOrigin(1)
		b := newBench(t)
		defer b.end()
		b.announce(theirs, "cam", model.Info{}, idle)
		b.announce(origin, "mic", model.Info{}, idle)
		decided := make(chan struct{})
		b.connect(v, Config{Origin: theirs}, Config{Origin: origin, Authorize: func(context.Context, string) (session.Grant, error) {
			<-decided
			return session.Everything(""), nil
		}}, transport.PipeConfig{})
		advance(time.Second)
		synctest.Wait()
		if a, b := len(origin.Routes()), len(theirs.Routes()); a != 1 || b != 1 {
			t.Errorf("before the decision there are %d and %d routes, want one each", a, b)
		}
		close(decided)
		b.mustSee(origin, "cam")
		b.mustSee(theirs, "mic")
	})
}

func TestAGrantDecidesWhatIsSeenAndWhatIsHeard(t *testing.T) {
	everyVersion(t, func(t *testing.T, v lite.Version) {
		origin, theirs := newOrigin(2), newOrigin(1)
		b := newBench(t)
		defer b.end()
		for _, path := range []model.Path{"r/see", "r/see/below", "r/hidden", "other"} {
			b.announce(origin, path, model.Info{}, idle)
		}
		for _, path := range []model.Path{"mine", "mine/below", "theirs"} {
			b.announce(theirs, path, model.Info{}, idle)
		}
		b.connect(v, Config{Origin: theirs}, granting(origin, session.Grant{
			Root: "r", Publish: patterns(t, "r/mine"), Subscribe: patterns(t, "r/see/**"),
		}), transport.PipeConfig{})
		advance(10 * time.Second)
		synctest.Wait()
		if got, want := paths(theirs), "mine mine/below see see/below theirs"; got != want {
			t.Errorf("the client has %q, want %q", got, want)
		}
		if got, want := paths(origin), "other r/hidden r/mine r/see r/see/below"; got != want {
			t.Errorf("the server has %q, want %q", got, want)
		}
		// A route leads to all below it. What its publisher may not publish is not asked for there.
		for path, want := range map[model.Path]error{"r/mine": nil, "r/mine/deeper": session.ErrForbidden} {
			sub, err := origin.Subscribe(path, "video", model.Peer{}, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(b.ctx, time.Second)
			if _, err = sub.Info(ctx); errors.Is(err, session.ErrForbidden) != (want != nil) {
				t.Errorf("%q: %v, want %v", path, err, want)
			}
			cancel()
			sub.Close()
		}
	})
}

// paths are an origin's, in order.
func paths(o *model.Origin) string {
	var out []string
	for _, r := range o.Routes() {
		out = append(out, string(r.Path))
	}
	return strings.Join(out, " ")
}

// What a grant hides is not in the counts either.
func TestHiddenAnnouncementsAreNotCounted(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := newScript(t, v, granting(nil, session.Grant{Subscribe: patterns(t, "see")}), transport.PipeConfig{HasURI: true}, false)
		s.opening(v)
		for _, path := range []model.Path{"a", "see", "see/below", "z"} {
			s.publisher(path)
		}
		s.run(`
			open bidi x
			x write 01 | 01 00
			x want 02 0a 01 | 00 08 03"see" 01 03 01 02 # ANNOUNCE_OK counts one
			x want nothing
		`)
	}, lite.Lite06)
}

func TestWhatIsNotGrantedIsAnsweredAsWhatIsNotThere(t *testing.T) {
	for _, there := range []bool{true, false} {
		scripted(t, func(t *testing.T, v lite.Version) {
			s := newScript(t, v, granting(nil, session.Grant{Subscribe: patterns(t, "see")}), transport.PipeConfig{HasURI: true}, false)
			s.opening(v)
			if there {
				s.publisher("cam")
			}
			s.run("open bidi b\n b write " + subscribeTo(v, "00") + "\n b want reset 0x36\n alive # UNROUTABLE")
		}, versions...)
	}
}

// idle is a publisher that publishes nothing.
func idle(ctx context.Context, _ *model.Producer) { <-ctx.Done() }
