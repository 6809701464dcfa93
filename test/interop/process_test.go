//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program under test. It ends with the test.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when it has ended and all output was read

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every line
	lines   []string      // of standard output
	frames  map[int]frames
	stderr  bytes.Buffer
	ended   bool
	err     error // of Wait
}

// frames are what one viewer saw, or a publisher sent: size and hash by place.
type frames map[place]string

type place struct{ group, frame int }

// start runs a program. name is for messages.
func start(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, name: name, cmd: exec.Command(program, args...), done: make(chan struct{}),
		changed: make(chan struct{}), frames: make(map[int]frames),
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = (*lockedWriter)(p)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	go p.read(stdout)
	t.Cleanup(p.stop)
	return p
}

// lockedWriter collects standard error.
type lockedWriter process

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stderr.Write(b)
}

func (p *process) read(stdout io.Reader) {
	defer close(p.done)
	for in := bufio.NewScanner(stdout); in.Scan(); {
		p.line(in.Text())
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.err = true, err
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if viewer, at, what, ok := parseFrame(text); ok {
		if p.frames[viewer] == nil {
			p.frames[viewer] = make(frames)
		}
		if _, twice := p.frames[viewer][at]; twice {
			what += " a second time"
		}
		p.frames[viewer][at] = what
	} else {
		p.lines = append(p.lines, text)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// parseFrame reads "frame GROUP FRAME SIZE SHA256 [VIEWER]".
func parseFrame(text string) (viewer int, at place, what string, ok bool) {
	f := strings.Fields(text)
	if len(f) < 5 || f[0] != "frame" {
		return 0, place{}, "", false
	}
	at.group, _ = strconv.Atoi(f[1])
	at.frame, _ = strconv.Atoi(f[2])
	if len(f) == 6 {
		viewer, _ = strconv.Atoi(f[5])
	}
	return viewer, at, f[3] + " bytes " + f[4], true
}

// await waits until ready is true of what the process has put out.
func (p *process) await(what string, ready func(p *process) bool) {
	p.t.Helper()
	limit := time.NewTimer(failsafe)
	defer limit.Stop()
	for {
		p.mu.Lock()
		ok, ended, changed := ready(p), p.ended, p.changed
		p.mu.Unlock()
		switch {
		case ok:
			return
		case ended:
			p.t.Fatalf("%s has ended (%v) before %s\n%s", p.name, p.err, what, p.output())
		}
		select {
		case <-changed:
		case <-limit.C:
			p.t.Fatalf("%s: no %s within %v\n%s", p.name, what, failsafe, p.output())
		}
	}
}

// awaitLine waits for a line of standard output that begins so, and returns the rest.
func (p *process) awaitLine(prefix string) (rest string) {
	p.t.Helper()
	p.await(fmt.Sprintf("line %q", prefix), func(p *process) bool {
		for _, line := range p.lines {
			if found, ok := strings.CutPrefix(line, prefix); ok {
				rest = found
				return true
			}
		}
		return false
	})
	return rest
}

// awaitFrame waits until each of so many viewers has seen a frame.
func (p *process) awaitFrame(viewers, group, frame int) {
	p.t.Helper()
	p.await(fmt.Sprintf("frame %d of group %d at %d viewers", frame, group, viewers), func(p *process) bool {
		for v := range viewers {
			if _, ok := p.frames[v][place{group, frame}]; !ok {
				return false
			}
		}
		return true
	})
}

// tell writes a line to standard input.
func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("%s does not read its standard input: %v\n%s", p.name, err, p.output())
	}
}

// wantSuccess closes standard input and waits for a good end.
func (p *process) wantSuccess() {
	p.t.Helper()
	_ = p.stdin.Close()
	p.wantExit(0)
}

// wantExit waits for the end with this code.
func (p *process) wantExit(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(failsafe):
		p.t.Fatalf("%s has not ended within %v\n%s", p.name, failsafe, p.output())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s has ended with code %d, want %d\n%s", p.name, got, code, p.output())
	}
}

// seen returns what a viewer saw.
func (p *process) seen(viewer int) frames {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.frames[viewer])
}

// output is what the process said, without frames, for messages.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := ""
	for v, f := range p.frames {
		counts += fmt.Sprintf("[viewer %d: %d frames]\n", v, len(f))
	}
	return fmt.Sprintf("--- %s, standard output:\n%s\n%s--- standard error:\n%s", p.name, strings.Join(p.lines, "\n"), counts, p.stderr.String())
}

// stop ends the process, which may first end what it has started itself.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	if p.t.Failed() {
		p.t.Log(p.output())
	}
}

// node runs one of the JavaScript programs.
func node(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return start(t, program, "node", append([]string{filepath.Join("js", program)}, args...)...)
}

// moqLoad runs moq-load.
func moqLoad(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, "moq-load "+args[0], filepath.Join(built, "moq-load"), args...)
}
