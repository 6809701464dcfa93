package relay

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	wire "github.com/moqrelay/operator/relay/wire/lite"
)

// archive is a publisher of groups that are asked for one by one: group n has frames
// of all sizes, and there are four.
type archive struct {
	ctx   context.Context
	asked chan uint64
}

const archived = 4

func (a *archive) Pull(p *model.Producer) { p.Accept(model.Info{Timescale: 1000}) }

func (a *archive) Fetch(r *model.GroupRequest) {
	a.asked <- r.Sequence()
	if r.Sequence() >= archived {
		r.Fail(model.ErrNotFound)
		return
	}
	g, err := r.Begin(model.Window{Bytes: 16 << 20})
	if err != nil {
		return
	}
	go func() {
		for i, n := range sizes {
			if err := writeFrame(a.ctx, g, pattern(n, byte(r.Sequence())*16+byte(i))); err != nil {
				return
			}
		}
		_ = g.Finish()
	}()
}

// fetchPayloads fetches one group, or a part of it, and returns its payloads.
func fetchPayloads(ctx context.Context, o *model.Origin, path model.Path, options model.FetchOptions) (payloads [][]byte, err error) {
	f, err := o.Fetch(path, "video", model.Peer{}, options)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := f.Reader(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		if _, err := r.NextFrame(ctx); err != nil {
			return payloads, err
		}
		var payload []byte
		for {
			p, err := r.Payload(ctx)
			if isEOF(err) {
				break
			}
			if err != nil {
				return payloads, err
			}
			payload = append(payload, p...)
			r.Taken(len(p))
		}
		payloads = append(payloads, payload)
	}
}

// wantArchived checks the payloads of group n from frame first on.
func wantArchived(payloads [][]byte, n, first, count int) error {
	if len(payloads) != count {
		return fmt.Errorf("%d frames came, want %d", len(payloads), count)
	}
	for i, got := range payloads {
		want := pattern(sizes[first+i], byte(n)*16+byte(first+i))
		if !bytes.Equal(got, want) {
			return fmt.Errorf("frame %d has %d bytes that are not the %d published ones", first+i, len(got), len(want))
		}
	}
	return nil
}

// Nobody watches: the publisher is asked, and no byte is lost between any two
// transports and versions.
func TestAGroupIsFetchedThroughTheRelayOnAnyTransport(t *testing.T) {
	type end struct {
		kind    transport.Kind
		version wire.Version
	}
	ends := []end{
		{transport.QUIC, wire.Lite06},
		{transport.WebTransport, wire.Lite05},
		{transport.WebSocket, wire.Lite06},
	}
	server := newServer(t, nil)
	for i, from := range ends {
		ctx, cancel := context.WithTimeout(t.Context(), failsafe)
		defer cancel()
		path := model.Path(fmt.Sprintf("archive/%d", i))
		publisher := newClient(t, server.dial(t, from.kind, from.version), wire.RolePublisher)
		a := &archive{ctx: context.WithoutCancel(t.Context()), asked: make(chan uint64, 100)}
		publisher.origin.Announce(model.Route{Path: path, Source: a})
		awaitRoute(t, server.origin, path)
		for _, to := range ends {
			viewer := newClient(t, server.dial(t, to.kind, to.version), wire.RoleSubscriber)
			awaitRoute(t, viewer.origin, path)
			for _, n := range []int{2, 0} {
				payloads, err := fetchPayloads(ctx, viewer.origin, path, model.FetchOptions{Group: uint64(n)})
				if isEOF(err) {
					err = wantArchived(payloads, n, 0, len(sizes))
				}
				if err != nil {
					t.Fatalf("group %d from %v to %v after %d frames: %v", n, from, to, len(payloads), err)
				}
			}
			payloads, err := fetchPayloads(ctx, viewer.origin, path, model.FetchOptions{Group: 2, FrameStart: 3, FrameEnd: 5, HasFrameEnd: true})
			if isEOF(err) {
				err = wantArchived(payloads, 2, 3, 3)
			}
			if err != nil {
				t.Fatalf("frames 3 to 5 from %v to %v: %v", from, to, err)
			}
			if _, err := fetchPayloads(ctx, viewer.origin, path, model.FetchOptions{Group: archived}); err == nil || isEOF(err) {
				t.Fatalf("a group that is not there from %v to %v: %v, want a refusal", from, to, err)
			}
		}
		if n := len(a.asked); n < 3 || n > 4*len(ends) {
			t.Errorf("the publisher was asked %d times for %d fetches of three groups", n, 4*len(ends))
		}
	}
}
