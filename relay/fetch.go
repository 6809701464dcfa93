package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/model"
	"github.com/moqrelay/operator/relay/session"
)

// fetchPatience is how long an HTTP fetch waits for the next byte of its group,
// and for a client to take one.
const fetchPatience = 30 * time.Second

// fetchStep is the most that is written at a time: a client that takes so much
// within fetchPatience is not too slow.
const fetchStep = 64 << 10

// errNoProgress ends a fetch that got nothing for so long.
var errNoProgress = fmt.Errorf("nothing came for %v", fetchPatience)

// fetchGroup is GET /fetch/BROADCAST/TRACK?group=N: the payloads of one group's
// frames, one behind the other, as they come.
func (s *Server) fetchGroup(w http.ResponseWriter, r *http.Request) {
	path, track, options, err := fetchRequest(r.URL)
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	grant, ok := s.grantOf(w, r)
	if !ok {
		return
	}
	s.sessions.running.Add(1) // Run waits for it, as for a session
	defer s.sessions.running.Done()
	counts := s.traffic.of(overHTTP, grant.Tier)
	if !grant.MaySubscribe(path) {
		counts.Refused.Add(session.ErrForbidden)
		answer(w, http.StatusForbidden, session.ErrForbidden.Error())
		return
	}
	status, end := s.fetches.begin(s.live.Load().Limits, remoteAddr(r))
	if status != 0 {
		counts.Refused.Add(session.ErrLimit)
		w.Header().Set("Retry-After", "1")
		answer(w, status, fetchLimits[status])
		return
	}
	defer end()
	pacer, paced := s.tenants.pacer(path)
	defer paced()
	// The server's deadlines are for short answers: this one has its own, for each step.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	f := &httpFetch{w: w, control: control, counts: &counts.Counters, pacer: pacer}
	err = f.serve(r.Context(), func() (*model.Fetch, error) { return s.origin.Fetch(path, track, model.Peer{}, options) })
	switch {
	case err == nil:
	case f.begun || r.Context().Err() != nil: // the latter: the client is gone, or the relay ends
		panic(http.ErrAbortHandler) // who still reads sees that the group is not whole
	default:
		counts.Refused.Add(err)
		f.extend()
		answer(w, fetchStatus(err), err.Error())
	}
}

// fetchLimits says which limit refuses a fetch, by the status that does.
var fetchLimits = map[int]string{
	http.StatusTooManyRequests:    "too many fetches from this address at a time",
	http.StatusServiceUnavailable: "too many fetches at a time",
}

// fetchRequest reads what a fetch asks for.
func fetchRequest(u *url.URL) (path model.Path, track string, options model.FetchOptions, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", "", options, errors.New("the query cannot be read")
	}
	rest, _ := strings.CutPrefix(u.EscapedPath(), "/fetch/")
	slash := strings.LastIndexByte(rest, '/')
	if slash < 0 {
		return "", "", options, errors.New("no track: the path is /fetch/BROADCAST/TRACK")
	}
	if track, err = url.PathUnescape(rest[slash+1:]); err != nil || track == "" || len(track) > maxTrackName {
		return "", "", options, fmt.Errorf("no track name of 1 to %d bytes: the path is /fetch/BROADCAST/TRACK", maxTrackName)
	}
	if path, err = requestedPath(rest[:slash]); err != nil {
		return "", "", options, err
	}
	for key := range query {
		if key != "group" && key != "jwt" {
			return "", "", options, fmt.Errorf("no such parameter: %.80q; accepted: group, jwt", key)
		}
	}
	groups := query["group"]
	switch {
	case len(groups) == 0, slices.Equal(groups, []string{"latest"}):
		options.Latest = true
	case len(groups) > 1:
		err = errors.New("group is there more than once")
	default:
		if options.Group, err = strconv.ParseUint(groups[0], 10, 62); err != nil {
			err = fmt.Errorf("group %.80q is neither latest nor a number below 2^62", groups[0])
		}
	}
	return path, track, options, err
}

// maxTrackName is the longest track name in bytes, as on the wire.
const maxTrackName = 1024

// requestedPath reads a path out of a URL.
func requestedPath(escaped string) (model.Path, error) {
	text, err := url.PathUnescape(escaped)
	if err != nil {
		return "", errors.New("the path cannot be read")
	}
	return model.ParsePath(text)
}

// fetchStatus is the HTTP status for a group that cannot be had.
func fetchStatus(err error) int {
	switch {
	case errors.Is(err, model.ErrNotFound), errors.Is(err, model.ErrUnroutable):
		return http.StatusNotFound
	case errors.Is(err, model.ErrUpstreamTimeout), errors.Is(err, errNoProgress):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// httpFetch is one fetch under way.
type httpFetch struct {
	w       http.ResponseWriter
	control *http.ResponseController
	counts  *session.Counters
	pacer   *session.Pacer // nil: nothing bounds the rate
	begun   bool           // the head of the answer is written
}

// serve answers with the group. It fails before the answer has begun where it can.
func (f *httpFetch) serve(ctx context.Context, open func() (*model.Fetch, error)) error {
	f.counts.Fetches.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(fetchPatience, func() { cancel(errNoProgress) })
	defer patience.Stop()
	fetch, err := open()
	if err != nil {
		return err
	}
	defer fetch.Close()
	r, err := fetch.Reader(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	err = f.copy(ctx, r, patience)
	if errors.Is(err, io.EOF) {
		f.begin() // a group without frames is an answer too
		f.counts.Out.Groups.Cell().Add(1)
		return nil
	}
	return err
}

// copy writes the frames' payloads. The error is io.EOF when all are written.
func (f *httpFetch) copy(ctx context.Context, r *model.Reader, patience *time.Timer) error {
	bytes, frames := f.counts.Out.Bytes.Cell(), f.counts.Out.Frames.Cell()
	for {
		if _, err := r.NextFrame(ctx); err != nil {
			return err
		}
		for {
			b, err := r.Payload(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			b = b[:min(len(b), fetchStep)]
			patience.Stop() // a slow client has its own
			if err := f.pacer.Wait(ctx, len(b)); err != nil {
				return err
			}
			if err := f.write(b); err != nil {
				return err
			}
			patience.Reset(fetchPatience)
			r.Taken(len(b))
			bytes.Add(int64(len(b)))
		}
		frames.Add(1)
	}
}

// begin writes the head of the answer, once.
func (f *httpFetch) begin() {
	if f.begun {
		return
	}
	f.begun = true
	f.extend()
	head := f.w.Header()
	head.Set("Access-Control-Allow-Origin", "*")
	head.Set("Content-Type", "application/octet-stream")
	head.Set("Cache-Control", "no-store")
	f.w.WriteHeader(http.StatusOK)
}

// extend gives the client time for the next write. It cannot fail on what the
// server serves, and a write says so if it does.
func (f *httpFetch) extend() { _ = f.control.SetWriteDeadline(time.Now().Add(fetchPatience)) }

// write sends what has come now, not when more has.
func (f *httpFetch) write(b []byte) error {
	f.begin()
	f.extend()
	if _, err := f.w.Write(b); err != nil {
		return err
	}
	return f.control.Flush()
}

// announced is GET /announced/PREFIX: the broadcasts at and below it, one a line.
func (s *Server) announced(w http.ResponseWriter, r *http.Request) {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), "/announced/")
	prefix, err := requestedPath(rest)
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	grant, ok := s.grantOf(w, r)
	if !ok {
		return
	}
	watcher := s.origin.Watch(prefix, model.Peer{}) // looks at that part alone
	defer watcher.Close()
	changes, err := watcher.Next(r.Context())
	if err != nil {
		return // the client is gone
	}
	var text strings.Builder
	for _, c := range changes {
		name := string(c.Path.Strip(prefix))
		if c.Kind == model.Ended || !grant.MaySubscribe(c.Path) || strings.ContainsAny(name, "\r\n") {
			continue // a name with a line break would read as two
		}
		text.WriteString(name + "\n")
	}
	answer(w, http.StatusOK, text.String())
}
