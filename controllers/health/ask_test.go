package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moqrelay/operator/relay/status"
)

// document is what a healthy relay answers.
const document = `{"v": 1, "version": "v0.1.0", "started": "2026-12-01T12:00:00Z", "sessions": 7, "news": {"of": "tomorrow"},
	"socketBuffers": {"receive": {"requested": 1, "granted": 1}, "send": {"requested": 1, "granted": 1}, "drops": 42},
	"cluster": {"node": "uid", "id": 5, "expected": 2, "connected": 1, "peers": [{"address": "10.0.0.2:4444", "state": "Connecting"}]}}`

// serveStatus answers at the address returned.
func serveStatus(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestARelayIsAskedForStatuszAndUnknownFieldsAreIgnored(t *testing.T) {
	address := serveStatus(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/statusz" || r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s %s with %v", r.Method, r.URL.Path, r.Header)
		}
		fmt.Fprint(w, document)
	})
	d, err := ask(t.Context(), newClient(time.Minute), address)
	if err != nil || d.Sessions != 7 || d.SocketBuffers.Drops != 42 || d.Cluster.Expected != 2 || d.Cluster.Connected != 1 {
		t.Errorf("got %+v, %v; want 7 sessions, 42 drops, 1 of 2 peers", d, err)
	}
}

func TestAnswersThatAreNoStatusOfOursAreErrors(t *testing.T) {
	for name, row := range map[string]struct {
		code int
		body string
		want string
	}{
		"an error":           {http.StatusServiceUnavailable, document, "503"},
		"another page":       {http.StatusOK, "<html>", "parse"},
		"nothing":            {http.StatusOK, "", "parse"},
		"another schema":     {http.StatusOK, `{"v": 2}`, "it is 2, want 1"},
		"no schema":          {http.StatusOK, `{"sessions": 1}`, "it is 0, want 1"},
		"another form":       {http.StatusOK, `{"v": 1, "sessions": "many"}`, "parse"},
		"too much":           {http.StatusOK, `{"v": 1, "version": "` + strings.Repeat("a", maxDocument) + `"}`, "more than 262144 bytes"},
		"two documents":      {http.StatusOK, document + document, "parse"},
		"a way to elsewhere": {http.StatusFound, "", "302"},
	} {
		address := serveStatus(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://192.0.2.1/secret")
			w.WriteHeader(row.code)
			fmt.Fprint(w, row.body)
		})
		if _, err := ask(t.Context(), newClient(time.Minute), address); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, row.want)
		}
	}
}

func TestAnotherSchemaCanBeToldFromOtherFaults(t *testing.T) {
	if _, err := parse([]byte(`{"v": 2}`)); !errors.Is(err, errSchema) {
		t.Errorf("got %v, want errSchema", err)
	}
}

func TestAPodThatDoesNotAnswerIsGivenUp(t *testing.T) {
	address := serveStatus(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, newClient(time.Minute), address); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestAConnectionServesManyAsks(t *testing.T) {
	seen := map[string]bool{}
	address := serveStatus(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.RemoteAddr] = true
		fmt.Fprint(w, document)
	})
	client := newClient(time.Minute)
	for range 3 {
		if _, err := ask(t.Context(), client, address); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("three asks took %d connections, want 1", len(seen))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(`{"v": 2}`))
	f.Add([]byte(`{"v": 1, "cluster": null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parse(body)
		if err != nil {
			return
		}
		if d.Schema != status.SchemaVersion {
			t.Errorf("a document of schema %d is taken", d.Schema)
		}
		var h history
		h.take(d, 3, noon)
		h.take(d, 3, noon.Add(time.Hour))
		if h.Expected < 3 && d.Cluster != nil || h.Expected > maxPeers || h.Connected < 0 || len(h.Missing) > maxMissing {
			t.Errorf("%s gives %+v", body, h.Reading)
		}
		if _, err := json.Marshal(h.Reading); err != nil {
			t.Error(err)
		}
	})
}
