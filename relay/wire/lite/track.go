package lite

import (
	"errors"
	"fmt"

	"github.com/moqrelay/operator/relay/wire"
)

// Track is TRACK (05 and later): a question about a track's properties.
type Track struct {
	// Broadcast is the full path.
	Broadcast string
	// Epoch is the publisher's instance that is meant, zero for any. Since 07-wip.
	Epoch Epoch
	// Track is the track's name, at most [MaxTrackName] bytes.
	Track string
}

// Append appends the message to b.
func (m *Track) Append(b []byte, v Version) ([]byte, error) {
	e := encode("TRACK", b, v, v.HasTrack())
	e.path("broadcast", m.Broadcast)
	e.epoch(m.Epoch)
	e.String("track", m.Track, MaxTrackName)
	return e.close()
}

// DecodeTrack reads the body of TRACK.
func DecodeTrack(body []byte, v Version) (*Track, error) {
	d := decode("TRACK", body, v, v.HasTrack())
	m := &Track{Broadcast: d.path("broadcast"), Epoch: d.epoch(), Track: d.track("track")}
	return m, d.close()
}

// TrackInfo is TRACK_INFO (05 and later): the properties of a track, which
// never change while it lives.
type TrackInfo struct {
	// Priority breaks ties between equal priorities of subscribers.
	Priority uint8
	// Ordered is retired: write false.
	Ordered bool
	// MaxAge is the longest, in milliseconds, that the publisher keeps a group
	// that is not the latest; 0 means the latest only.
	MaxAge uint64
	// Timescale is how many units of a timestamp make a second; never 0.
	Timescale uint64
}

var errTimescale = errors.New("must not be 0")

// Append appends the message to b.
func (m *TrackInfo) Append(b []byte, v Version) ([]byte, error) {
	e := encode("TRACK_INFO", b, v, v.HasTrack())
	e.Byte(m.Priority)
	if v.HasOrdered() {
		e.flag(m.Ordered)
	}
	e.Varint("max age", m.MaxAge)
	if m.Timescale == 0 {
		e.Fail("timescale", fmt.Errorf("%w: %w", wire.ErrMalformed, errTimescale))
	}
	e.Varint("timescale", m.Timescale)
	return e.close()
}

// DecodeTrackInfo reads the body of TRACK_INFO.
func DecodeTrackInfo(body []byte, v Version) (*TrackInfo, error) {
	d := decode("TRACK_INFO", body, v, v.HasTrack())
	m := &TrackInfo{Priority: d.Byte("priority")}
	if v.HasOrdered() {
		m.Ordered = d.Byte("ordered") != 0
	}
	m.MaxAge = d.Varint("max age")
	m.Timescale = d.Varint("timescale")
	if m.Timescale == 0 {
		d.Fail("timescale", fmt.Errorf("%w: %w", wire.ErrMalformed, errTimescale))
	}
	return m, d.close()
}
