//go:build narrow

package narrow

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	delay     = 50 * time.Millisecond // each way
	loseEvery = 100                   // datagrams towards the viewer
)

// wire carries datagrams between one client and a server, late, and loses some of
// those that go to the client. The kernel here has no queueing discipline that does.
type wire struct {
	near, far *net.UDPConn

	mu     sync.Mutex
	client net.Addr
	seen   int
	lost   int
}

// newWire returns the wire to server, and the address where the client finds it.
func newWire(ctx context.Context, server string) (*wire, string, error) {
	to, err := net.ResolveUDPAddr("udp4", server)
	if err != nil {
		return nil, "", err
	}
	w := &wire{}
	if w.far, err = net.DialUDP("udp4", nil, to); err != nil {
		return nil, "", err
	}
	if w.near, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, "", err
	}
	_ = w.far.SetReadBuffer(4 << 20)
	_ = w.near.SetReadBuffer(4 << 20)
	go w.toServer()
	go w.toClient()
	context.AfterFunc(ctx, func() {
		_ = w.near.Close()
		_ = w.far.Close()
	})
	return w, w.near.LocalAddr().String(), nil
}

func (w *wire) toServer() {
	b := make([]byte, 2048)
	for {
		n, from, err := w.near.ReadFrom(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.client = from
		w.mu.Unlock()
		p := append([]byte(nil), b[:n]...)
		time.AfterFunc(delay, func() { _, _ = w.far.Write(p) })
	}
}

func (w *wire) toClient() {
	b := make([]byte, 2048)
	for {
		n, err := w.far.Read(b)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.seen++
		lost := w.seen%loseEvery == 0
		if lost {
			w.lost++
		}
		to := w.client
		w.mu.Unlock()
		if lost || to == nil {
			continue
		}
		p := append([]byte(nil), b[:n]...)
		time.AfterFunc(delay, func() { _, _ = w.near.WriteTo(p, to) })
	}
}
