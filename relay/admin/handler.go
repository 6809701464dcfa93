package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/moqrelay/operator/relay/status"
)

// StatusSource tells the relay's state. It may be asked from any goroutine.
type StatusSource interface {
	Status() status.Document
}

// StatsSource tells what the relay has counted. It may be asked from any goroutine.
type StatsSource interface {
	Stats() Stats
}

// Options are what a [Handler] shows and does.
type Options struct {
	// Status is behind /statusz, /readyz and some metrics. Required.
	Status StatusSource
	// Stats is behind /metrics. Required.
	Stats StatsSource
	// Alive returns why the process should be replaced, or nil; nil: it is always alive.
	Alive func() error
	// Drain begins to drain and returns at once; more calls change nothing. Nil:
	// there is no /drain.
	Drain func()
	// Snapshots are lists by name: "sessions" is served on /sessions as a JSON
	// array, an item a line, while it is read.
	Snapshots map[string]func() iter.Seq[any]
	// Profiles opens /debug/pprof/.
	Profiles bool
}

// handler answers on the status port.
type handler struct {
	o Options
	// wasReady is set for ever by the first answer that the relay is ready.
	wasReady atomic.Bool
}

// Handler returns the status port's HTTP handler.
func Handler(o Options) http.Handler {
	h := &handler{o: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	mux.HandleFunc("GET /statusz", h.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(o.Status, o.Stats), promhttp.HandlerOpts{}))
	if o.Drain != nil {
		mux.Handle("POST /drain", local(http.HandlerFunc(h.drain)))
	}
	for name, list := range o.Snapshots {
		mux.Handle("GET /"+name, local(snapshot(list)))
	}
	if o.Profiles {
		mux.Handle("/debug/pprof/", local(profiles()))
	}
	return mux
}

// live answers the liveness probe.
func (h *handler) live(w http.ResponseWriter, _ *http.Request) {
	if h.o.Alive != nil {
		if err := h.o.Alive(); err != nil {
			text(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	text(w, http.StatusOK, "ok")
}

// ready answers the readiness probe. It never turns red again: red cuts every
// running UDP flow, whatever the reason was.
func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	doc := h.o.Status.Status()
	if doc.Ready {
		h.wasReady.Store(true)
	}
	switch {
	case !h.wasReady.Load():
		text(w, http.StatusServiceUnavailable, "not ready: sockets or certificate missing")
	case doc.Draining:
		text(w, http.StatusOK, "draining")
	default:
		text(w, http.StatusOK, "ready")
	}
}

// status shows the status document.
func (h *handler) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// A reader that is gone is nobody to tell.
	_ = json.NewEncoder(w).Encode(h.o.Status.Status())
}

// drain begins to drain.
func (h *handler) drain(w http.ResponseWriter, _ *http.Request) {
	h.o.Drain()
	text(w, http.StatusAccepted, "draining")
}

// snapshot writes a list as it is read.
func snapshot(list func() iter.Seq[any]) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		separator := "[\n"
		for item := range list() {
			line, err := json.Marshal(item)
			if err != nil {
				continue // not the peer's fault, and the rest is worth having
			}
			if _, err := fmt.Fprintf(w, "%s%s", separator, line); err != nil {
				return
			}
			separator = ",\n"
		}
		if separator == "[\n" {
			_, _ = io.WriteString(w, "[")
		}
		_, _ = io.WriteString(w, "\n]\n")
	}
}

// profiles serves the runtime's profiles.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// local lets loopback peers through. A browser on the same machine is one too,
// so pages of other origins are refused, also those that made a name of theirs
// point here.
func local(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() || !isOwnName(r.Host) {
			text(w, http.StatusForbidden, "only for loopback peers")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isOwnName reports whether a Host header is an address or localhost: names are
// what others can make point here.
func isOwnName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(host) != nil
}

// text answers with one line.
func text(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, line+"\n")
}
