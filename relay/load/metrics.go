package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// vitals are what a relay of ours says of itself on its status port: counts that
// /proc does not have.
type vitals struct {
	goroutines, mallocs, mallocBytes float64
}

// vitalsOf asks a status port at HOST:PORT.
func vitalsOf(ctx context.Context, status string) (v vitals, err error) {
	b, err := get(ctx, "http://"+status+"/metrics")
	if err != nil {
		return v, fmt.Errorf("the relay's metrics: %w", err)
	}
	text := string(b)
	return vitals{
		goroutines:  metric(text, "go_goroutines"),
		mallocs:     metric(text, "go_memstats_mallocs_total"),
		mallocBytes: metric(text, "go_memstats_alloc_bytes_total"),
	}, nil
}

// live is what a relay's process needs when its garbage is gone, in bytes.
type live struct{ heap, stacks float64 }

// liveOf has a relay collect its garbage, which needs its profiles, and asks what is left.
func liveOf(ctx context.Context, status string) (l live, err error) {
	for range 3 { // what pools keep is gone after the second time
		if _, err := get(ctx, "http://"+status+"/debug/pprof/heap?gc=1"); err != nil {
			return l, fmt.Errorf("have the relay collect garbage: %w", err)
		}
	}
	b, err := get(ctx, "http://"+status+"/metrics")
	if err != nil {
		return l, fmt.Errorf("the relay's metrics: %w", err)
	}
	text := string(b)
	return live{metric(text, "go_memstats_heap_alloc_bytes"), metric(text, "go_memstats_stack_inuse_bytes")}, nil
}

// profile has a relay take a profile for some time, and writes it to a file.
func profile(ctx context.Context, status, kind string, lasts time.Duration, file string) error {
	b, err := get(ctx, fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%.0f", status, kind, max(1, lasts.Seconds())))
	if err == nil {
		err = os.WriteFile(file, b, 0o666)
	}
	if err != nil {
		return fmt.Errorf("profile %q of the relay: %w", kind, err)
	}
	return nil
}

// get fetches a page of a status port.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, res.Status, b)
	}
	return b, err
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
