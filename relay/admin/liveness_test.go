package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPartThatMakesNoProgressForAMinuteIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Liveness
		if err := l.Check(); err != nil {
			t.Fatalf("without parts: %v", err)
		}
		scheduler, reader := l.Part("scheduler"), l.Part("socket reader")
		<-time.After(59 * time.Second)
		if err := l.Check(); err != nil {
			t.Errorf("after 59 s: %v", err)
		}
		scheduler.Beat()
		<-time.After(2 * time.Second)
		if err := l.Check(); err == nil || err.Error() != "socket reader: no progress for 61 s" {
			t.Errorf("after 61 s: %v, want the socket reader alone", err)
		}
		reader.Beat()
		if err := l.Check(); err != nil {
			t.Errorf("after a beat: %v", err)
		}
	})
}

func TestServeAnswersUntilItsContextIsDone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, newHandler(nil)) }()
	resp, err := http.Get("http://" + listener.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "ready\n" {
		t.Errorf("body is %q, want ready", body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("the port still answers")
	}
}

func TestServeTellsABrokenListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := Serve(t.Context(), listener, newHandler(nil)); err == nil {
		t.Error("Serve = nil on a closed listener")
	}
}
