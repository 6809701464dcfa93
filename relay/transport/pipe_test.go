package transport_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/moqrelay/operator/relay/transport"
	"github.com/moqrelay/operator/relay/transport/transporttest"
)

func newPipe(o transporttest.Options) (client, server *transport.PipeConn) {
	grant := transport.PipeGrant{Windows: o.Windows, MaxStreams: o.MaxStreams}
	return transport.Pipe(transport.PipeConfig{Protocol: "test", Client: grant, Server: grant, MaxDatagram: 1200})
}

func TestPipePassesTheSuite(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, o transporttest.Options) transporttest.Pair {
		client, server := newPipe(o)
		return transporttest.Pair{Client: client, Server: server, Lose: func() { client.Lose(nil) }}
	})
}

func TestPipeBlocksAWriterAtTheWindowToTheByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newPipe(transporttest.Options{Windows: transport.Windows{Stream: 100, Connection: 150}})
		written := make(chan int, 2)
		for range 2 {
			s, err := client.OpenSendStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for n := 0; ; n++ {
					if _, err := s.Write([]byte{1}); err != nil {
						written <- n
						return
					}
				}
			}()
			synctest.Wait()
		}
		client.Close(0, "")
		if first, second := <-written, <-written; first+second != 150 || max(first, second) != 100 {
			t.Errorf("the two streams took %d and %d bytes, want 100 and 50", first, second)
		}
		_ = server
	})
}

func TestPipeWithoutWindowsNeverBlocksAndReportsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := transport.Pipe(transport.PipeConfig{})
		for range 2000 {
			s, err := client.OpenStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n, err := s.Write(make([]byte, 10_000)); n != 10_000 || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
		}
		if w := server.Windows(); w != (transport.Windows{}) {
			t.Errorf("windows are %+v, want none", w)
		}
	})
}

func TestPipeStreamIsUnknownToThePeerBeforeItsFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := transport.Pipe(transport.PipeConfig{})
		s, err := client.OpenStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			_, err := server.AcceptStream(t.Context())
			accepted <- err
		}()
		synctest.Wait()
		select {
		case err := <-accepted:
			t.Fatalf("accepted (%v) before the first byte", err)
		default:
		}
		if _, err := s.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
	})
}

func TestPipeIsLostWithTheGivenError(t *testing.T) {
	cause := errors.New("cable cut")
	client, server := transport.Pipe(transport.PipeConfig{})
	client.Lose(cause)
	for _, c := range []*transport.PipeConn{client, server} {
		if !errors.Is(c.Err(), cause) {
			t.Errorf("Err is %v, want %v", c.Err(), cause)
		}
	}
}
