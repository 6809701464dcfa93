package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// sendDatagrams sends one datagram after another until there were enough: one may be
// lost, even on loopback.
func sendDatagrams(payload []byte, enough <-chan struct{}) func(context.Context, *model.Producer) error {
	return func(ctx context.Context, p *model.Producer) error {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := uint64(0); ; n++ {
			p.Datagram(n, int64(n), payload)
			select {
			case <-tick.C:
			case <-enough:
				return nil
			case <-ctx.Done():
				return nil
			}
		}
	}
}

func TestADatagramOfThePublisherReachesTheViewerOnQUICAndWebTransport(t *testing.T) {
	server := newServer(t, nil)
	payload := pattern(1000, 7)
	for i, kind := range []transport.Kind{transport.QUIC, transport.WebTransport} {
		for _, version := range []wire.Version{wire.Lite05, wire.Lite06} {
			t.Run(fmt.Sprint(kind, " ", version), func(t *testing.T) {
				path := model.Path(fmt.Sprintf("room/%d/%s", i, version))
				publisher := newClient(t, server.dial(t, kind, version), wire.RolePublisher)
				enough := make(chan struct{})
				defer close(enough)
				newStudio(t, publisher.origin, path, sendDatagrams(payload, enough))
				viewer := newClient(t, server.dial(t, kind, version), wire.RoleSubscriber)
				awaitRoute(t, viewer.origin, path)

				ctx, cancel := context.WithTimeout(t.Context(), failsafe)
				defer cancel()
				queue := model.NewDatagramQueue(nil)
				sub, err := viewer.origin.Subscribe(path, "video", model.Peer{}, model.Options{Datagrams: queue})
				if err != nil {
					t.Fatal(err)
				}
				defer sub.Close()
				d, err := queue.Next(ctx)
				if err != nil {
					t.Fatalf("no datagram came: %v", err)
				}
				if d.Subscription != sub || d.Timestamp != int64(d.Sequence) || !bytes.Equal(d.Payload, payload) {
					t.Fatalf("group %d at %d with %d bytes came, want its number as its time and %d bytes", d.Sequence, d.Timestamp, len(d.Payload), len(payload))
				}
			})
		}
	}
}

// probe opens a Probe stream on a bare connection and returns the first report; an
// error where the relay refuses.
func probe(ctx context.Context, conn transport.Conn) (*wire.Probe, error) {
	setup, err := conn.OpenSendStream(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := setup.Write([]byte{1, 1, 0}); err != nil { // SETUP without parameters
		return nil, err
	}
	if err := setup.Close(); err != nil {
		return nil, err
	}
	st, err := conn.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := st.Write([]byte{byte(wire.BidiProbe)}); err != nil {
		return nil, err
	}
	body, err := wire.Lite06.Reader(st, 100).Message()
	if err != nil {
		return nil, err
	}
	return wire.DecodeProbe(body, wire.Lite06)
}

// declaredLevel reads the relay's SETUP.
func declaredLevel(ctx context.Context, conn transport.Conn) (wire.ProbeLevel, error) {
	st, err := conn.AcceptReceiveStream(ctx)
	if err != nil {
		return 0, err
	}
	var typ [1]byte
	if _, err := io.ReadFull(st, typ[:]); err != nil || typ[0] != byte(wire.UniSetup) {
		return 0, fmt.Errorf("the first stream is of type %d (%v)", typ[0], err)
	}
	body, err := wire.Lite06.Reader(st, wire.MaxSetup).Message()
	if err != nil {
		return 0, err
	}
	msg, err := wire.DecodeSetup(body, wire.Lite06)
	if err != nil {
		return 0, err
	}
	return msg.Probe, nil
}

// What a transport knows when the session begins decides: QUIC knows both figures,
// TCP perhaps its round-trip time, and who knows nothing resets Probe streams.
func TestProbeReportsWhatTheTransportDeclaresToMeasure(t *testing.T) {
	server := newServer(t, nil)
	for _, kind := range []transport.Kind{transport.QUIC, transport.WebTransport, transport.WebSocket} {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), failsafe)
			defer cancel()
			conn := server.dial(t, kind, wire.Lite06)
			defer conn.Close(0, "")
			level, err := declaredLevel(ctx, conn)
			if err != nil {
				t.Fatal(err)
			}
			report, err := probe(ctx, conn)
			switch {
			case level == wire.ProbeNone && kind == transport.WebSocket:
				if err == nil {
					t.Fatalf("reported %+v at level 0, want a reset", report)
				}
			case err != nil || level != wire.ProbeReport || report.RTT == 0:
				t.Fatalf("level %d, reported %+v (%v), want level 1 and a round-trip time", level, report, err)
			case report.Bitrate == 0 && kind != transport.WebSocket:
				t.Fatalf("reported %+v, want a bitrate", report)
			}
		})
	}
}
