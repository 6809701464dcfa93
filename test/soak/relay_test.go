//go:build soak

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildRelay compiles the relay with the race detector.
func buildRelay(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "moq-relay")
	cmd := exec.Command("go", "build", "-race", "-o", program, "../../cmd/relay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the relay: %v\n%s", err, out)
	}
	return program
}

// relay is a relay process.
type relay struct {
	name             string
	client, statusAt string // HOST:PORT; client is for UDP and TCP
	live             string // its live configuration file
	cmd              *exec.Cmd
	ended            chan struct{} // closed when it has ended
	err              error         // of Wait; read after ended

	mu  sync.Mutex
	log bytes.Buffer // what it printed
}

// Write implements io.Writer for the process's standard error.
func (r *relay) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(b)
}

// printed is what the relay has said so far.
func (r *relay) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// relayFile is the configuration of class R. The times are short, so that what
// ends by time does so within a short soak too.
const relayFile = `listen: 127.0.0.1:0
status: {listen: "127.0.0.1:0"}
tls: {mode: SelfSigned}
protocols: [moq-lite-06, moq-lite-05, moq-lite-04, moq-lite-03, moq-lite-06-wip, moq-lite-07-wip]
transports: {quic: {idleTimeoutSeconds: 15}}
auth: {mode: JWT, key: %q, publicSubscribe: ["live/**"]}
drain: {timeoutSeconds: 4}
log: {format: json}
`

// liveFile is that of class L.
const liveFile = `cache: {maxBytes: %dMi, maxAgeSeconds: %d}
limits: {stalledTimeoutSeconds: 5, upstreamTimeoutSeconds: %d, sessionsPerTenant: 1000, egressBytesPerSecondPerTenant: %dMi}
drain: {goawaySpreadSeconds: 1}
`

// startRelay starts a relay that believes tokens of key. It is killed with the
// test, if it has not ended before.
func startRelay(t *testing.T, name, program, key string) (*relay, error) {
	folder := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "relay.yaml")
	r := &relay{name: name, live: filepath.Join(folder, "live.yaml"), ended: make(chan struct{})}
	if err := os.WriteFile(file, fmt.Appendf(nil, relayFile, key), 0o666); err != nil {
		return nil, err
	}
	if err := r.reconfigure(32, 5, 5, 0); err != nil {
		return nil, err
	}
	r.cmd = exec.Command(program, "serve", "--config", file, "--live-config", r.live, "--pprof", "--termination-log", filepath.Join(folder, "termination"))
	r.cmd.Env = append(os.Environ(), "GORACE=exitcode=66")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stderr = r
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); <-r.ended })
	text := make([]byte, 512)
	n, _ := out.Read(text)
	go func() {
		_, _ = io.Copy(io.Discard, out)
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	var udp string
	if _, err := fmt.Sscanf(string(text[:n]), "listening udp=%s tcp=%s status=%s", &udp, &r.client, &r.statusAt); err != nil {
		return nil, fmt.Errorf("relay %s: its first line is %q: %s", name, text[:n], r.printed())
	}
	return r, nil
}

// reconfigure writes the live file: the cache's ceiling in MiB, its age and the
// patience with publishers in seconds, and what all viewers together may get in a
// second in MiB. The file is replaced as a whole.
func (r *relay) reconfigure(cache, age, upstream, egress int) error {
	next := r.live + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, liveFile, cache, age, upstream, egress), 0o666); err != nil {
		return err
	}
	return os.Rename(next, r.live)
}

// end asks the relay to drain and waits until it has ended; want is its code.
func (r *relay) end(ctx context.Context) error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("relay %s: %w", r.name, err)
	}
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		_ = r.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines
		<-r.ended
		return fmt.Errorf("relay %s has not ended within a minute of SIGTERM:\n%s", r.name, r.printed())
	case <-ctx.Done():
		return nil
	}
	if r.err != nil {
		return fmt.Errorf("relay %s has ended with %w", r.name, r.err)
	}
	return nil
}

// faults are what a relay must not say: races, panics, errors.
func (r *relay) faults() (faults []string, warnings map[string]int) {
	text := r.printed()
	warnings = make(map[string]int)
	for _, sign := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		if at := strings.Index(text, sign); at >= 0 {
			faults = append(faults, text[at:min(at+8000, len(text))])
		}
	}
	for line := range strings.Lines(text) {
		var entry struct{ Level, Msg, Error, Err string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue
		}
		switch entry.Level {
		case "ERROR":
			faults = append(faults, strings.TrimSpace(line))
		case "WARN":
			warnings[entry.Msg]++
		}
	}
	return faults, warnings
}

// client asks without keeping connections, which would count as the relay's goroutines.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}

func get(url string) (status int, body string, err error) {
	res, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// series are the samples of a scrape, by name and labels as they are written.
type series map[string]float64

func (r *relay) metrics() (series, error) {
	status, body, err := get("http://" + r.statusAt + "/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("metrics of relay %s: status %d, %w", r.name, status, err)
	}
	out := make(series)
	for line := range strings.Lines(body) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics of relay %s: %q", r.name, line)
		}
		out[line[:at]] = v
	}
	return out, nil
}

// sum adds up the series of a name whose labels contain all the texts.
func (s series) sum(name string, labels ...string) (sum float64) {
next:
	for key, v := range s {
		base, rest, _ := strings.Cut(key, "{")
		if base != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(rest, label) {
				continue next
			}
		}
		sum += v
	}
	return sum
}

// emptyGauges are those that are 0 when nobody is there.
var emptyGauges = []string{
	"sessions", "sessions_draining", "subscriptions", "broadcasts", "routes", "tracks", "groups_open",
	"ingest_paused_streams", "cache_bytes", "cache_groups", "buffer_bytes", "accept_stalled_seconds",
}

// remains says what is left of the churn; nothing when that is all over.
func (s series) remains(goroutines float64) (remains []string) {
	for _, name := range emptyGauges {
		if v := s.sum("moq_relay_" + name); v != 0 {
			remains = append(remains, fmt.Sprintf("%s is %v", name, v))
		}
	}
	for key, opened := range s {
		labels, ok := strings.CutPrefix(key, "moq_relay_sessions_opened_total")
		if !ok {
			continue
		}
		pair := strings.Split(strings.Trim(labels, "{}"), ",")
		if closed := s.sum("moq_relay_sessions_closed_total", pair...); closed != opened {
			remains = append(remains, fmt.Sprintf("of the sessions %s %v were opened and %v closed", labels, opened, closed))
		}
	}
	if n := s["go_goroutines"]; n > goroutines {
		remains = append(remains, fmt.Sprintf("there are %v goroutines, and were %v at the start", n, goroutines))
	}
	return remains
}
