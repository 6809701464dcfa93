//go:build bench

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// process is a relay that runs.
type process struct {
	cmd              *exec.Cmd
	udp, tcp, status string
	hash             [sha256.Size]byte
}

// start runs a relay and waits for its line of addresses.
func start(ctx context.Context, binary string) (*process, error) {
	cmd := exec.CommandContext(ctx, binary, "serve", "--dev", "--listen", "127.0.0.1:0", "--status-listen", "127.0.0.1:0",
		"--log-level", "error", "--pprof")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the relay's first line: %w", err)
	}
	p := &process{cmd: cmd}
	if _, err := fmt.Sscanf(line, "listening udp=%s tcp=%s status=%s", &p.udp, &p.tcp, &p.status); err != nil {
		return nil, fmt.Errorf("the relay's first line %q: %w", line, err)
	}
	text, err := get(ctx, "http://"+p.tcp+"/certificate.sha256")
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(text)
	copy(p.hash[:], raw)
	return p, err
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// sample is what a relay says of itself at one time.
type sample struct {
	rss, peak                     int64 // bytes
	cpu                           float64
	goroutines, allocs, allocated float64
	cache, sessions, drops        float64
}

func (p *process) sample(ctx context.Context) (sample, error) {
	var s sample
	text, err := get(ctx, "http://"+p.status+"/metrics")
	if err != nil {
		return s, err
	}
	for name, to := range map[string]*float64{
		"go_goroutines": &s.goroutines, "go_memstats_mallocs_total": &s.allocs, "go_memstats_alloc_bytes_total": &s.allocated,
		"moq_relay_cache_bytes": &s.cache, "moq_relay_sessions": &s.sessions, "moq_relay_udp_packets_dropped_total": &s.drops,
		"process_cpu_seconds_total": &s.cpu,
	} {
		*to = metric(text, name)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	s.rss, s.peak = kilobytes(string(status), "VmRSS:"), kilobytes(string(status), "VmHWM:")
	return s, err
}

// metric is the sum of all series of one name.
func metric(text, name string) (sum float64) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, _ := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		sum += v
	}
	return sum
}

func kilobytes(text, name string) int64 {
	_, rest, _ := strings.Cut(text, name)
	var n int64
	_, _ = fmt.Sscan(rest, &n)
	return n << 10
}

// forgetPeak makes VmHWM begin anew.
func (p *process) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}
