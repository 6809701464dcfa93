package build

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// packages counts, for each of our three programs, what an empty cache compiles, in
// this order: the last one finds most of it done.
var packages = map[string]int{"pause": 57, "hyperkube": 2500, "coredns": 100}

// progress turns what `go build -v` prints, a line per module fetched and per
// package compiled, into one line per interval.
type progress struct {
	out      io.Writer
	name     string
	expected int // how many packages there are to compile with an empty cache, about
	interval time.Duration
	start    time.Time

	modules  int
	packages int
	other    []string // lines that are neither: the errors
}

func newProgress(out io.Writer, name string, interval time.Duration) *progress {
	return &progress{out: out, name: name, expected: packages[name], interval: interval, start: time.Now()}
}

// follow reads to the end and returns the lines that were not progress.
func (p *progress) follow(r io.Reader) string {
	lines := make(chan string, 64)
	// Ends with r; the loop below waits for it by way of the closed channel.
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return strings.Join(p.other, "\n")
			}
			p.count(line)
		case now := <-tick.C:
			fmt.Fprintln(p.out, p.line(now))
		}
	}
}

// importPath is a line of `go build -v` that names a package and nothing else.
var importPath = regexp.MustCompile(`^[A-Za-z0-9._~/-]+$`)

func (p *progress) count(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.modules++
	case importPath.MatchString(line):
		p.packages++
	default:
		p.other = append(p.other, withoutHosts(line))
	}
}

func (p *progress) line(now time.Time) string {
	gone := now.Sub(p.start).Round(time.Second)
	switch {
	case p.packages > 0:
	case p.modules > 0:
		return fmt.Sprintf("%s: %s, %d modules fetched", p.name, gone, p.modules)
	default:
		return fmt.Sprintf("%s: %s, nothing to compile so far", p.name, gone)
	}
	return fmt.Sprintf("%s: %s, %d packages compiled, of about %d with an empty cache", p.name, gone, p.packages, p.expected)
}

// address is a URL; what follows the host tells which module failed.
var address = regexp.MustCompile(`https?://[^/\s"]+`)

// withoutHosts hides where modules come from: a log that is passed on must not
// name somebody's private mirror.
func withoutHosts(line string) string {
	return address.ReplaceAllString(line, "<module proxy>")
}
