package lite

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// withDatagrams are the versions that have datagrams.
var withDatagrams = []lite.Version{lite.Lite05, lite.Lite06wip, lite.Lite06}

// datagramServer is server on a connection whose datagrams have at most so many bytes.
func datagramServer(t *testing.T, v lite.Version, most int) *script {
	t.Helper()
	s := newScript(t, v, Config{}, transport.PipeConfig{HasURI: true, MaxDatagram: most}, false)
	s.opening(v)
	return s
}

// datagram sends a datagram to the session.
func (s *script) datagram(text string) {
	s.t.Helper()
	p, err := parseBytes(text)
	if err == nil {
		err = s.conn.SendDatagram(p)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

// wantDatagrams takes all datagrams that have come from the session.
func (s *script) wantDatagrams(texts ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.bench.ctx, time.Second)
	defer cancel()
	for _, text := range texts {
		want, err := parseBytes(text)
		if err != nil {
			s.t.Fatal(err)
		}
		got, err := s.conn.ReceiveDatagram(ctx)
		if err != nil || !bytes.Equal(got, want) {
			s.t.Fatalf("came %x (%v), want %x", got, err, want)
		}
	}
	if got, err := s.conn.ReceiveDatagram(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, transport.ErrNoDatagrams) {
		s.t.Fatalf("came %x (%v) as well", got, err)
	}
}

// queued takes the datagrams that wait in a queue.
func queued(t *testing.T, q *model.DatagramQueue) (all []model.Datagram) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for {
		d, err := q.Next(ctx)
		if err != nil {
			return all
		}
		all = append(all, d)
	}
}

func TestADatagramReachesEachSubscriptionUnderItsOwnID(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		publisher := datagramServer(t, v, 1500)
		publisher.announceCam(v)
		viewer := newScript(t, v, Config{Origin: publisher.origin}, transport.PipeConfig{HasURI: true, MaxDatagram: 1500}, false)
		viewer.openingOf(v, "08")
		viewer.run("open bidi v\n v write " + strings.Replace(subscribeTo(v, "c8"), ` 00 03"cam"`, ` 05 03"cam"`, 1))
		publisher.run(`
			accept bidi t
			t want 06 | 0a 03"cam" 05"video"
		`)
		publisher.datagram(`00 06 43e8 "early"`) // TRACK_INFO is not here
		publisher.run("t write " + trackInfo(v) + "\n t fin\n accept bidi a\n a want " + subscribeTo(v, "c8"))
		publisher.datagram(`00 07 43e8 "one"`)
		publisher.datagram(`01 07 43e8 "nobody's"`)
		publisher.datagram(`40`) // makes no sense
		publisher.datagram(`00 08 440f`)
		viewer.wantDatagrams(`05 07 43e8 "one"`, `05 08 440f`)
		viewer.run("v want nothing\n none uni\n alive")
		publisher.run("alive")
		synctest.Wait()
		if n := publisher.counters.Malformed.Load(); n != 1 {
			t.Errorf("%d count as malformed, want 1", n)
		}
		in, out := publisher.counters.In.Datagrams.Load(), viewer.counters.Out.Datagrams.Load()
		if in != 2 || out != 2 {
			t.Errorf("%d came in and %d went out, want 2 and 2", in, out)
		}
		viewer.run("v fin\n v want fin")
		publisher.datagram(`00 09 43e8 "late"`)
		viewer.wantDatagrams()
	}, withDatagrams...)
}

func TestADatagramThatIsTooLargeEndsNothing(t *testing.T) {
	for _, row := range []struct {
		name string
		most int // of the connection
		fits int // payload behind the four bytes in front
	}{
		{"for the protocol", 65000, 1196},
		{"for the connection", 500, 496},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := datagramServer(t, lite.Lite06, row.most)
				pub, _ := s.publisher("cam")
				s.run("open bidi a\n a write " + subscribeTo(lite.Lite06, "c8"))
				p := pub.producer(t, 0)
				synctest.Wait()
				payload := strings.Repeat("x", row.fits)
				p.Datagram(1, 1000, []byte(payload+"x"))
				p.Datagram(2, 1000, []byte(payload))
				s.wantDatagrams(`00 02 43e8 "` + payload + `"`)
				if n := s.counters.DatagramsTooLarge.Load(); n != 1 {
					t.Errorf("%d count as too large, want 1", n)
				}
				group(t, p, 3, "key", "p")
				s.run("accept uni g\n g want " + oneGroup(lite.Lite06, "03") + "\n g want fin\n alive")
			})
		})
	}
}

// Where the version or the connection has none, nothing becomes of them: they are
// never turned into groups.
func TestThereAreNoDatagramsWithoutAVersionAndAConnectionThatHaveThem(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		most := 0
		if !v.HasDatagrams() {
			most = 1500
		}
		s := datagramServer(t, v, most)
		pub, _ := s.publisher("cam")
		s.run("open bidi a\n a write " + subscribeTo(v, "c8"))
		p := pub.producer(t, 0)
		synctest.Wait()
		p.Datagram(1, 1000, []byte("x"))
		s.wantDatagrams()
		s.run("none uni\n alive")
	}, versions...)
}

func TestAPublishersDatagramsReachItsSubscribersAlone(t *testing.T) {
	scripted(t, func(t *testing.T, v lite.Version) {
		s := datagramServer(t, v, 1500)
		q := model.NewDatagramQueue(nil)
		sub := s.upstream(t, v)
		defer sub.Close()
		sub.Update(model.Options{Priority: 200, Datagrams: q})
		other := s.viewerOf(t, "audio", model.Options{})
		defer other.Close()
		s.datagram(`00 07 43e8 "x"`)
		all := queued(t, q)
		if len(all) != 1 || all[0].Subscription != sub || all[0].Sequence != 7 || all[0].Timestamp != 1000 || string(all[0].Payload) != "x" {
			t.Fatalf("came %+v, want group 7 at 1000", all)
		}
		s.run("a fin\n a stop 0\n wait 2s") // the track has ended, and late groups are not waited for
		s.datagram(`00 08 43e8 "x"`)
		if all := queued(t, q); len(all) != 0 {
			t.Fatalf("came %+v after the end", all)
		}
		s.run("alive")
	}, withDatagrams...)
}
