package model

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
)

func benchGroup(b *testing.B, window Window) (*Origin, *Producer, *GroupWriter) {
	b.Helper()
	o := NewOrigin(Config{})
	source := newPublisher()
	o.Announce(Route{Path: "room", Source: source})
	if _, err := o.Subscribe("room", "video", Peer{}, Options{Passive: true}); err != nil {
		b.Fatal(err)
	}
	p := <-source.pulled
	p.Accept(anyInfo)
	w, err := p.Group(0, window)
	if err != nil {
		b.Fatal(err)
	}
	return o, p, w
}

func benchReaders(b *testing.B, o *Origin, n int) []*Reader {
	b.Helper()
	readers := make([]*Reader, n)
	for i := range readers {
		sub, err := o.Subscribe("room", "video", Peer{}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if readers[i], err = sub.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return readers
}

// One frame of 64 bytes through the paced writer, then taken by each reader.
func BenchmarkPaced(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		for _, window := range []int64{0, 1 << 20} {
			b.Run(fmt.Sprintf("readers=%d/window=%d", n, window), func(b *testing.B) {
				o, _, w := benchGroup(b, Window{Bytes: window})
				readers := benchReaders(b, o, n)
				payload, before := make([]byte, 64), head(64)
				b.ReportAllocs()
				for b.Loop() {
					if err := w.WriteFrame(b.Context(), before, 0, payload); err != nil {
						b.Fatal(err)
					}
					for _, r := range readers {
						s, err := r.Next(b.Context())
						if err != nil {
							b.Fatal(err)
						}
						r.Taken(len(s))
					}
				}
			})
		}
	}
}

// A group of n frames of 64 bytes, read to its end by fresh readers one after another.
func BenchmarkRelayFrames(b *testing.B) {
	for _, frames := range []int{4, 512, 8192} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("frames=%d/readers=%d", frames, n), func(b *testing.B) {
				o, _, w := benchGroup(b, Window{})
				payload, before := make([]byte, 64), head(64)
				for range frames {
					if err := w.WriteFrame(b.Context(), before, 0, payload); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.Finish(); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					readers := benchReaders(b, o, n)
					b.StartTimer()
					for _, r := range readers {
						for {
							s, err := r.Next(b.Context())
							if err != nil {
								break
							}
							r.Taken(len(s))
						}
					}
					b.StopTimer()
					for _, r := range readers {
						r.sub.Close()
					}
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*frames*n), "ns/frame/reader")
			})
		}
	}
}

// A writer that waits until every reader has taken its frame: what a wake costs.
func BenchmarkContended(b *testing.B) {
	for _, n := range []int{16, 256} {
		b.Run(fmt.Sprintf("readers=%d", n), func(b *testing.B) {
			o, _, w := benchGroup(b, Window{})
			readers := benchReaders(b, o, n)
			payload, before := make([]byte, 64), head(64)
			var taken sync.WaitGroup
			var done sync.WaitGroup
			for _, r := range readers {
				done.Go(func() {
					for got := 0; ; {
						s, err := r.Next(b.Context())
						if err != nil {
							return
						}
						r.Taken(len(s))
						for got += len(s); got >= 69; got -= 69 { // a slice may end inside a frame
							taken.Done()
						}
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				taken.Add(n)
				if err := w.WriteFrame(b.Context(), before, 0, payload); err != nil {
					b.Fatal(err)
				}
				taken.Wait()
			}
			w.Abort(ErrClosed)
			done.Wait()
		})
	}
}

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
