package model

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// pacingModel is what the rules of pacing say of one group, in figures alone.
type pacingModel struct {
	window, tail int64
	frames       []int64 // log bytes of each frame admitted, heads included
	held         int64   // charge of all of them
	mark         int64   // highest log offset that any reader has taken
	readers      map[*Reader]*modelReader
}

// modelReader is a reader's place as the model knows it.
type modelReader struct {
	pos  int64
	from uint64 // its first frame, while that has not begun
	wait bool   // it has not
}

// place finds where a reader is, whose first frame may have begun meanwhile.
func (m *pacingModel) place(r *modelReader) int64 {
	if r.wait && r.from < uint64(len(m.frames)) {
		r.pos, r.wait = 0, false
		for _, size := range m.frames[:r.from] {
			r.pos += size
		}
	}
	return r.pos
}

func (m *pacingModel) written() (end int64) {
	for _, size := range m.frames {
		end += size
	}
	return end
}

// progress is the charge of all that the fastest reader has ever taken.
func (m *pacingModel) progress() (charge int64) {
	end := int64(0)
	for _, size := range m.frames {
		if end += size; end <= m.mark {
			charge += frameCharge
		}
	}
	return charge + m.mark
}

// admits is the rule: the frame fits into the window, or a reader has everything.
func (m *pacingModel) admits(size int64) bool {
	charge := size + frameCharge
	if charge <= m.window && m.held+charge-m.progress() <= m.window {
		return true
	}
	return len(m.readers) > 0 && m.mark >= m.written()
}

// FuzzPacing runs random admissions, reads, joins, leaves and cuts against the
// rules: a frame is admitted exactly when they say so, no more than a window (or
// one large frame) is ever held ahead of the fastest reader, the mark never falls,
// and every reader gets the very bytes that were written.
func FuzzPacing(f *testing.F) {
	for _, seed := range [][]byte{
		{10, 1, 0, 0, 0, 0, 0, 0, 0, 0},                               // nobody watches
		{10, 1, 4, 0, 8, 0, 8, 0, 8, 0, 8},                            // one reader, in step
		{1, 0, 4, 3, 255, 2, 255, 3, 8, 3, 255},                       // frames larger than the window
		{20, 2, 4, 4, 0, 0, 0, 0, 2, 0, 5, 0, 0, 2, 255, 0, 5, 0, 0},  // the fastest leaves
		{50, 0, 0, 0, 4, 12, 20, 0, 28, 2, 1, 3, 40, 6, 0, 0, 4, 8},   // late joiners and a cut
		{255, 255, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 255, 10, 255},  // many small frames, a long tail
		{3, 9, 4, 0, 3, 200, 2, 3, 2, 9, 2, 255, 5, 3, 100, 4, 2, 90}, // all leave, another comes
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 || len(data) > 400 {
			return
		}
		p := newPacing(t, int64(data[0])*37+150, int64(data[1])*64+4000)
		defer p.close()
		for data = data[2:]; len(data) > 0; data = p.step(data) {
			p.check()
		}
		p.check()
	})
}

// pacing is a group under test and what the rules say of it.
type pacing struct {
	t       *testing.T
	origin  *Origin
	request *Producer
	sub     *Subscription
	w       *GroupWriter
	model   pacingModel
	readers []*Reader
	log     []byte // all that was written
}

func newPacing(t *testing.T, window, tail int64) *pacing {
	o := NewOrigin(Config{GroupTail: tail, MaxFrame: tail})
	p, sub := newSubscribed(t, o, Options{Passive: true})
	return &pacing{
		t: t, origin: o, request: p, sub: sub, w: wantGroup(t, p, 0, Window{Bytes: window}),
		model: pacingModel{window: window, tail: tail, readers: make(map[*Reader]*modelReader)},
	}
}

func (p *pacing) close() {
	p.sub.Close()
	for _, r := range p.readers {
		r.Close()
	}
	p.request.Fail(ErrSourceGone)
	wantHeld(p.t, p.origin, 0)
	if n := p.origin.stats.BufferBytes.Load(); n != 0 {
		p.t.Fatalf("%d bytes of chunks are left", n)
	}
}

// step does what the next bytes say and returns the rest.
func (p *pacing) step(data []byte) []byte {
	op, arg := data[0], int64(0)
	if len(data) > 1 {
		arg = int64(data[1])
	}
	switch op % 8 {
	case 0, 1:
		p.write(int64(op) / 8)
		return data[1:]
	case 3:
		p.write(arg * 11)
	case 4:
		p.join(uint64(op) / 8)
		return data[1:]
	case 5:
		p.leave(int(op) / 8)
		return data[1:]
	case 6:
		p.cut(int(op) / 8)
		return data[1:]
	case 2, 7:
		p.read(int(op)/8, arg*7)
	}
	return data[min(2, len(data)):]
}

// write offers a frame: it must be admitted exactly when the rules say so.
func (p *pacing) write(size int64) {
	before := head(int(size))
	whole := size + int64(len(before))
	if whole > p.model.tail {
		return // ends the group: another test's
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	cancel() // what would wait ends at once
	want := p.model.admits(whole)
	err := p.w.BeginFrame(ctx, before, 0, size)
	if (err == nil) != want {
		p.t.Fatalf("a frame of %d bytes got %v; the window is %d, held %d, mark %d, %d readers", size, err, p.model.window, p.model.held, p.model.mark, len(p.model.readers))
	}
	if err != nil {
		return
	}
	p.log = append(p.log, before...)
	for left := size; left > 0; {
		room, err := p.w.Buffer(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		for i := range room {
			room[i] = byte(len(p.log) + i)
		}
		p.log = append(p.log, room...)
		p.w.Commit(len(room))
		left -= int64(len(room))
	}
	p.model.frames = append(p.model.frames, whole)
	p.model.held += whole + frameCharge
}

func (p *pacing) join(from uint64) {
	g := p.w.group
	r := newReader(g, nil)
	from = g.first + from%8
	if err := g.attach(r, from); err != nil {
		p.t.Fatalf("frame %d, of %d to %d, cannot be had: %v", from, g.first, g.begun.Load(), err)
	}
	p.readers = append(p.readers, r)
	p.model.readers[r] = &modelReader{pos: noLimit, from: from, wait: true}
	if from == g.first {
		p.model.readers[r] = &modelReader{pos: g.front}
	}
}

func (p *pacing) pick(i int) *Reader {
	if len(p.readers) == 0 {
		return nil
	}
	return p.readers[i%len(p.readers)]
}

func (p *pacing) leave(i int) {
	if r := p.pick(i); r != nil {
		r.Close()
		delete(p.model.readers, r)
	}
}

// cut cuts a reader, which stays attached until it is closed, and closes it.
func (p *pacing) cut(i int) {
	if r := p.pick(i); r != nil {
		r.lose(ErrExpired)
		if r.Err() == nil {
			p.t.Fatal("a reader that was cut goes on")
		}
	}
}

// read lets a reader take some bytes: those that were written, from its place.
func (p *pacing) read(i int, n int64) {
	r := p.pick(i)
	if r == nil {
		return
	}
	m := p.model.readers[r]
	ctx, cancel := context.WithCancel(p.t.Context())
	cancel()
	for n > 0 {
		if m != nil {
			p.model.place(m)
		}
		got, err := r.Next(ctx)
		switch {
		case err == context.Canceled || err == io.EOF:
			if m != nil && m.pos < p.model.written() && r.Err() == nil {
				p.t.Fatalf("a reader at %d of %d got nothing", m.pos, p.model.written())
			}
			return
		case err != nil:
			if r.Err() == nil {
				p.t.Fatalf("a reader that was not cut got %v", err)
			}
			return
		case m == nil:
			p.t.Fatal("a closed reader was given bytes")
		}
		got = got[:min(int64(len(got)), n)]
		if !bytes.HasPrefix(p.log[m.pos:], got) {
			p.t.Fatalf("a reader at %d of %d got %d bytes that were not written there", m.pos, len(p.log), len(got))
		}
		r.Taken(len(got))
		m.pos += int64(len(got))
		p.model.mark = max(p.model.mark, m.pos)
		n -= int64(len(got))
	}
}

// check compares the group with what the rules say.
func (p *pacing) check() {
	t, g, m := p.t, p.w.group, &p.model
	if mark := g.mark.Load(); mark != m.mark {
		t.Fatalf("the mark is %d, want %d", mark, m.mark)
	}
	if written := g.written.Load(); written != m.written() || g.begun.Load() != uint64(len(m.frames)) {
		t.Fatalf("%d bytes of %d frames are written, want %d of %d", written, g.begun.Load(), m.written(), len(m.frames))
	}
	if n := g.readers.Load(); int(n) != len(m.readers) {
		t.Fatalf("%d readers are attached, want %d", n, len(m.readers))
	}
	// held - mark <= window, but for one large frame that a reader with everything was given.
	if last := len(m.frames) - 1; last >= 0 && m.held-m.progress() > max(m.window, m.frames[last]+frameCharge) {
		t.Fatalf("%d bytes are held ahead of the fastest reader, the window is %d", m.held-m.progress(), m.window)
	}
	// The charge is that of the frames held, and no more than the tail and the newest frame.
	charge := int64(groupCharge)
	for _, size := range m.frames[g.first:] {
		charge += size + frameCharge
	}
	wantHeld(t, p.origin, charge)
	if n := len(m.frames) - int(g.first); charge > m.tail && n > 1 {
		t.Fatalf("%d bytes of %d frames are held, over the tail of %d", charge, n, m.tail)
	}
	for r, reader := range m.readers {
		if lagged := m.place(reader) < g.front; lagged != (r.Err() == ErrLagged) && r.Err() != ErrExpired {
			t.Fatalf("a reader at %d has %v; the front is at %d", reader.pos, r.Err(), g.front)
		}
	}
}
