package quic

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/quic-go/quic-go/http3"

	"github.com/moqrelay/operator/relay/transport"
)

const (
	// maxHeaderBytes bounds a request: a path with a token in its query, and little else.
	maxHeaderBytes = 32 << 10

	headerOffered = "WT-Available-Protocols"
	headerChosen  = "WT-Protocol"
)

// webPeer is an HTTP/3 connection as the request handler sees it.
type webPeer struct {
	mux   *webMux
	setup *time.Timer // ends the connection if it fires before a session was begun
	used  atomic.Bool // a session was begun: there is one per connection
}

type webPeerKey struct{}

// peerOf finds what admit put into the context of a connection and its requests.
func peerOf(ctx context.Context) *webPeer { return ctx.Value(webPeerKey{}).(*webPeer) }

// upgrade answers every HTTP/3 request: with a session, or with a status. All
// refusals come before the session exists.
func (l *Listener) upgrade(w http.ResponseWriter, r *http.Request) {
	peer := peerOf(r.Context())
	info, status := l.admitRequest(w, r, peer)
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	peer.setup.Stop()
	w.Header().Set(headerChosen, quoted(info.Protocol))
	w.WriteHeader(http.StatusOK)
	session := newWebConn(w.(http3.HTTPStreamer).HTTPStream(), peer.mux.conn, l.cfg.Windows, info)
	peer.mux.begin(session)
	l.handOver(session)
}

// admitRequest returns what the session's Info will be, or the HTTP status of the refusal.
func (l *Listener) admitRequest(w http.ResponseWriter, r *http.Request, peer *webPeer) (transport.Info, int) {
	info, status, refusal := l.request(r)
	if status != 0 {
		l.cfg.Refused(refusal)
		return info, status
	}
	if l.cfg.Upgrade != nil {
		if status := l.cfg.Upgrade(info); status != 0 {
			return info, status
		}
	}
	if peer.used.Swap(true) {
		l.cfg.Refused(RefusedMalformed)
		return info, http.StatusTooManyRequests
	}
	if !peer.awaitSettings(w.(http3.Settingser)) {
		l.cfg.Refused(RefusedMalformed)
		return info, http.StatusBadRequest
	}
	return info, 0
}

// awaitSettings waits for the client's SETTINGS, which may come after its request,
// and says whether they allow a session.
func (p *webPeer) awaitSettings(w http3.Settingser) bool {
	patience := time.NewTimer(p.mux.patience)
	defer patience.Stop()
	select {
	case <-w.ReceivedSettings():
		return w.Settings().EnableDatagrams
	case <-patience.C:
	case <-p.mux.conn.Context().Done():
	}
	return false
}

// request checks a request and returns what its connection's Info would be, or
// the HTTP status of the refusal and its reason.
func (l *Listener) request(r *http.Request) (info transport.Info, status int, _ Refusal) {
	if r.Method != http.MethodConnect || !strings.HasPrefix(r.Proto, "webtransport") {
		return info, http.StatusNotFound, RefusedMalformed
	}
	info = transport.Info{
		Kind:   transport.WebTransport,
		HasURI: true,
		Path:   r.RequestURI,
		Origin: r.Header.Get("Origin"),
		Local:  r.Context().Value(http.LocalAddrContextKey).(net.Addr),
		Remote: r.Context().Value(http3.RemoteAddrContextKey).(net.Addr),

		Certificates: clientCertificates(*r.TLS),
	}
	if !l.originAllowed(info.Origin) {
		return info, http.StatusForbidden, RefusedOrigin
	}
	info.Protocol = choose(l.cfg.Protocols, r.Header.Values(headerOffered))
	if info.Protocol == "" {
		return info, http.StatusBadRequest, RefusedVersion
	}
	return info, 0, ""
}

func (l *Listener) originAllowed(origin string) bool {
	return origin == "" || slices.ContainsFunc(l.cfg.AllowedOrigins, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, origin)
	})
}

// choose returns the first of ours that the header offers, or "".
func choose(ours, header []string) string {
	list, err := httpsfv.UnmarshalList(header)
	if err != nil {
		return ""
	}
	offered := map[string]bool{}
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			if token, ok := item.Value.(string); ok {
				offered[token] = true
			}
		}
	}
	for _, token := range ours {
		if offered[token] {
			return token
		}
	}
	return ""
}

// quoted is a structured-field string. Tokens are checked to be printable ASCII
// by having been parsed from one.
func quoted(token string) string { return quotedList([]string{token}) }

// quotedList is a structured-field list of strings; empty if one of them is none.
func quotedList(tokens []string) string {
	list := make(httpsfv.List, 0, len(tokens))
	for _, token := range tokens {
		list = append(list, httpsfv.NewItem(token))
	}
	s, err := httpsfv.Marshal(list)
	if err != nil {
		return ""
	}
	return s
}
