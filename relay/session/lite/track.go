package lite

import (
	"context"
	"fmt"
	"sync"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/wire"
	"github.com/moqrelay/operator/relay/wire/lite"
)

// serveTrack answers one TRACK. While the peer keeps its half open it counts as
// demand for the track, so that none is missing until its SUBSCRIBE comes.
func (s *Session) serveTrack(st transport.Stream, in *wire.StreamReader) error {
	body, err := message(in, "TRACK")
	if err != nil {
		return err
	}
	req, err := lite.DecodeTrack(body, s.version)
	if err != nil {
		return s.refused(err)
	}
	over, err := s.openRequest()
	if err != nil {
		return s.refused(fmt.Errorf("TRACK %q %q: %w", req.Broadcast, req.Track, err))
	}
	defer over()
	sub, _, err := s.subscribe(req.Broadcast, req.Epoch, req.Track, model.Options{Passive: true})
	if err != nil {
		return s.refused(fmt.Errorf("TRACK %q %q: %w", req.Broadcast, req.Track, err))
	}
	defer sub.Close()
	if err := s.answerTrack(st, sub); err != nil {
		return s.refused(fmt.Errorf("TRACK %q %q: %w", req.Broadcast, req.Track, err))
	}
	return untilEnd(in)
}

// answerTrack writes TRACK_INFO when the upstream has answered.
func (s *Session) answerTrack(st transport.Stream, sub *model.Subscription) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	var task sync.WaitGroup
	defer task.Wait()
	defer cancel(nil)
	task.Go(func() { watchStopped(ctx, st, cancel) })
	info, err := sub.Info(ctx)
	if err != nil {
		return err
	}
	msg := lite.TrackInfo{Priority: info.Priority, MaxAge: milliseconds(info.MaxAge), Timescale: info.Timescale}
	b, err := msg.Append(nil, s.version)
	if err != nil {
		return err
	}
	if _, err := st.Write(b); err != nil {
		return err
	}
	return st.Close()
}

// requestInfo asks the peer for the properties of a track. The returned function
// ends the request: as long as it is open it is demand for the track. It is nil
// with an error.
func (p *pull) requestInfo() (info model.Info, end func(), err error) {
	st, err := p.s.openStream(p.ctx)
	if err != nil {
		return info, nil, err
	}
	off := abandon(p.ctx, st)
	msg, err := p.askTrack(st)
	if err != nil {
		off()
		st.Reset(uint64(lite.StreamCancelled))
		st.Stop(uint64(lite.StreamCancelled))
		return info, nil, err
	}
	info = model.Info{
		Priority:  msg.Priority,
		Ordered:   msg.Ordered,
		MaxAge:    duration(msg.MaxAge),
		Timescale: msg.Timescale,
	}
	return info, func() {
		off()
		_ = st.Close()
		st.Stop(uint64(lite.StreamCancelled))
	}, nil
}

func (p *pull) askTrack(st transport.Stream) (*lite.TrackInfo, error) {
	v := p.s.version
	req := lite.Track{Broadcast: p.name, Epoch: p.producer.Epoch(), Track: p.producer.Track()}
	b, err := req.Append(wire.AppendVarint(nil, uint64(lite.BidiTrack)), v)
	if err != nil {
		return nil, err
	}
	if _, err := st.Write(b); err != nil {
		return nil, err
	}
	body, err := message(p.s.version.Reader(st, p.s.cfg.Limits.ControlMessage), "TRACK_INFO")
	if err != nil {
		return nil, err
	}
	return lite.DecodeTrackInfo(body, v)
}
