package model

import (
	"strconv"
	"testing"
)

// BenchmarkWriteUnderAFullCache writes frames of 100 bytes to so many tracks in
// turn, each of which holds nothing but its latest group.
func BenchmarkWriteUnderAFullCache(b *testing.B) {
	for _, tracks := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(tracks), func(b *testing.B) {
			o := NewOrigin(Config{Cache: CacheConfig{MaxBytes: int64(tracks) * 3000}})
			writers := make([]*GroupWriter, tracks)
			for i := range writers {
				source := newPublisher()
				path := Path(strconv.Itoa(i))
				o.Announce(Route{Path: path, Source: source})
				if _, err := o.Subscribe(path, "video", Peer{}, Options{Passive: true}); err != nil {
					b.Fatal(err)
				}
				p := <-source.pulled
				p.Accept(anyInfo)
				var err error
				if writers[i], err = p.Group(0, Window{}); err != nil {
					b.Fatal(err)
				}
			}
			payload, i := make([]byte, 100), 0
			write := func() {
				if err := writers[i%tracks].WriteFrame(b.Context(), head(100), 0, payload); err != nil {
					b.Fatal(err)
				}
				i++
			}
			for range 20 * tracks {
				write()
			}
			b.ReportAllocs()
			for b.Loop() {
				write()
			}
		})
	}
}
