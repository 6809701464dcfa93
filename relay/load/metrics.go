package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// vitals are what a relay of ours says of itself on its status port: counts that
// /proc does not have.
type vitals struct {
	goroutines, mallocs, mallocBytes float64
}

// vitalsOf asks a status port at HOST:PORT.
func vitalsOf(ctx context.Context, status string) (v vitals, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+status+"/metrics", nil)
	if err != nil {
		return v, fmt.Errorf("the relay's metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return v, fmt.Errorf("the relay's metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err != nil {
		return v, fmt.Errorf("the relay's metrics: %w", err)
	}
	return vitals{
		goroutines:  metric(string(text), "go_goroutines"),
		mallocs:     metric(string(text), "go_memstats_mallocs_total"),
		mallocBytes: metric(string(text), "go_memstats_alloc_bytes_total"),
	}, nil
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
