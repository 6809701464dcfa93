package lite

import (
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moqrelay/operator/relay/transport"
)

// FuzzSession gives a session whatever bytes on whatever streams. The session
// may end; it may not panic, hang, hold memory, or harm another session.
//
// The input is a list of streams: one byte for the kind (bit 0: unidirectional,
// bit 1: no FIN, bit 2: a reset, bit 3: the bytes are an answer on the next
// stream that the session opened), two for the length, then the bytes.
func FuzzSession(f *testing.F) {
	seed := func(v uint8, streams ...string) {
		var b []byte
		for _, s := range streams {
			kind := s[0] - '0'
			p, err := parseBytes(s[1:])
			if err != nil {
				f.Fatal(err)
			}
			b = append(b, kind)
			b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
			b = append(b, p...)
		}
		f.Add(v, b)
	}
	for i, v := range versions {
		n := uint8(i)
		seed(n, "1 01 | 04 01 05 01 07", "2 "+request(v), "2 "+subscribeTo(v, "c8"), "1 "+oneGroup(v, "00"))
		seed(n, "2 06 | 0a 03\"cam\" 05\"video\"", "0 05 | 01 00", "0 03 | 0c 03\"cam\" 05\"video\" 00 00")
		seed(n, `: 02 07 01 | 06 01 03"cam" 00`, `: 02 07 01 | 00 07 03"cam" 00 00 00`)
		seed(n, "1 01 | ffffffffffffffff", "1 00 | ffffffffffffffff", "2 02 80010001", "5 00")
		seed(n, "2 "+subscribeTo(v, "c8")+" 05 00 00 00 00 00 06 00 00 00 00 00 00")
	}
	f.Fuzz(func(t *testing.T, v uint8, input []byte) {
		synctest.Test(t, func(t *testing.T) { fuzzSession(t, v, input) })
	})
}

func fuzzSession(t *testing.T, v uint8, input []byte) {
	version := versions[int(v)%len(versions)]
	relay := newOrigin(relayID)
	s := newScript(t, version, Config{Origin: relay}, transport.PipeConfig{HasURI: true, Path: "/a", Server: transport.PipeGrant{Windows: windows}}, false)
	bystander := newScript(t, version, Config{Origin: relay}, transport.PipeConfig{HasURI: true}, false)
	bystander.opening(version)
	s.publisher("a/cam")
	pub, _ := s.publisher("cam") // which nobody below /a can announce
	for len(input) >= 3 {
		kind := input[0]
		n := min(int(binary.BigEndian.Uint16(input[1:])), len(input)-3)
		s.fuzzStream(kind, input[3:3+n])
		input = input[3+n:]
		synctest.Wait()
	}
	advance(time.Minute)
	held, _ := relay.CacheBytes()
	if held > 1<<20 {
		t.Errorf("the cache holds %d bytes of a few small streams", held)
	}
	// The other session is served as if nothing had happened.
	bystander.run("open bidi a\n a write " + subscribeTo(version, "00"))
	pub.producer(t, 0)
	synctest.Wait()
	group(t, pub.producers[len(pub.producers)-1], 1<<20, "key", "p")
	bystander.run("accept uni g")
	synctest.Wait()
	st := bystander.streams["g"]
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.end != io.EOF {
		t.Fatalf("the other session's group ends with %v", st.end)
	}
}

// fuzzStream writes bytes on one stream and ends it as kind says.
func (s *script) fuzzStream(kind byte, p []byte) {
	var send transport.SendStream
	switch {
	case kind&8 != 0:
		select {
		case st := <-s.waiting["bidi"]:
			send = st.send
		default:
			return
		}
	case kind&1 != 0:
		send, _ = s.conn.OpenSendStream(s.bench.ctx)
	default:
		if st, err := s.conn.OpenStream(s.bench.ctx); err == nil {
			send = st
			s.newStream(st, st)
		}
	}
	if send == nil {
		return // the session has ended
	}
	// A write may block on the session's credit.
	s.bench.tasks.Go(func() {
		_, _ = send.Write(p)
		switch {
		case kind&4 != 0:
			send.Reset(uint64(kind))
		case kind&2 == 0:
			_ = send.Close()
		}
	})
}
