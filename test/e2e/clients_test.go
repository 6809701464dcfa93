//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// A program is a client that runs beside the test.
type program struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error // has one value when it has ended

	mu     sync.Mutex
	stdout []string
	stderr strings.Builder
	seen   chan struct{} // has a value after each line
}

// startNode starts a program of the public JavaScript client.
func startNode(t *testing.T, script string, args ...string) *program {
	t.Helper()
	return start(t, "node", append([]string{inRoot("test/interop/js/" + script)}, args...)...)
}

// startLoad starts moq-load.
func startLoad(t *testing.T, args ...string) *program {
	t.Helper()
	return start(t, inRoot("dist/linux/"+runtime.GOARCH+"/moq-load"), args...)
}

func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: strings.Join(append([]string{name}, args...), " "), ended: make(chan error, 1), seen: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.cmd = exec.CommandContext(ctx, name, args...)
	p.cmd.Stderr = lockedWriter{&p.mu, &p.stderr}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		p.read(stdout)
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			t.Logf("%s\nlast output:\n%s\nstderr:\n%s", p.name, strings.Join(p.stdout[max(0, len(p.stdout)-10):], "\n"), &p.stderr)
		}
	})
	return p
}

func (p *program) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		p.mu.Lock()
		p.stdout = append(p.stdout, lines.Text())
		p.mu.Unlock()
		select {
		case p.seen <- struct{}{}:
		default:
		}
	}
	close(p.seen)
}

// frames are the lines "frame GROUP FRAME SIZE SHA256" that it has printed, cut to
// these five words.
func (p *program) frames() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	frames := map[string]bool{}
	for _, line := range p.stdout {
		if words := strings.Fields(line); len(words) >= 5 && words[0] == "frame" {
			frames[strings.Join(words[:5], " ")] = true
		}
	}
	return frames
}

// printed says whether a line begins with text.
func (p *program) printed(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.stdout {
		if strings.HasPrefix(line, text) {
			return true
		}
	}
	return strings.Contains(p.stderr.String(), text)
}

// awaitLine waits until a line begins with text.
func (p *program) awaitLine(text string) {
	p.t.Helper()
	limit := time.NewTimer(failsafe)
	defer limit.Stop()
	again := time.NewTicker(250 * time.Millisecond) // for what comes on standard error
	defer again.Stop()
	for !p.printed(text) {
		select {
		case _, ok := <-p.seen:
			if !ok && !p.printed(text) {
				p.t.Fatalf("%s ended before it printed %q", p.name, text)
			}
		case <-again.C:
		case <-limit.C:
			p.t.Fatalf("%s did not print %q within %v", p.name, text, failsafe)
		}
	}
}

// interrupt asks it to end, as Ctrl-C does.
func (p *program) interrupt() { p.signal(os.Interrupt) }

// kill ends it without a chance to say good-bye.
func (p *program) kill() { p.signal(os.Kill) }

func (p *program) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%v to %s: %v", s, p.name, err)
	}
}

// endsWell waits until it has ended with exit code 0.
func (p *program) endsWell() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("%s: %v", p.name, err)
		}
	case <-time.After(failsafe):
		p.t.Fatalf("%s did not end within %v", p.name, failsafe)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}
