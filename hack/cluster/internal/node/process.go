package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A process is a component that this call of Up started.
type process struct {
	name string
	pid  int
	log  string
}

// searchPath is that of every component: Debian has runc and nft in the system
// folders, which a user's PATH may lack.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// start starts a component in a session of its own, so that neither Ctrl-C nor the
// end of this program reaches it. Its environment is small on purpose: a proxy
// variable would send the components' own calls to a proxy.
func (c *Cluster) start(name string) error {
	program := filepath.Join(c.Cache.Bin(), name)
	if name == "containerd" {
		found, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		program = found
	}
	log, err := os.Create(c.log(name))
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(program, c.command(name)...)
	cmd.Dir = c.Dir
	cmd.Env = []string{"PATH=" + searchPath + ":" + os.Getenv("PATH"), "HOME=" + c.Dir, c.marking()}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := proc.KeepFilesToSelf(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	c.started = append(c.started, &process{name: name, pid: cmd.Process.Pid, log: log.Name()})
	return nil
}

// wait polls until ready gives nil, for at most two minutes. It gives up at once
// when a component that Up started has ended: then nothing will become ready. The
// error has the last answer of ready or the end of the component's log.
func (c *Cluster) wait(ctx context.Context, ready func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(limited)
		if err == nil {
			return nil
		}
		if died := c.died(); died != nil {
			return died
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not ready within two minutes: %w; logs are in %s", err, filepath.Join(c.Dir, "log"))
		}
	}
}

// died says which of the started components has ended, and what it said.
func (c *Cluster) died() error {
	for _, p := range c.started {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
		if pid == p.pid || errors.Is(err, syscall.ECHILD) {
			return fmt.Errorf("%s ended (exit status %d); the end of %s:\n%s", p.name, status.ExitStatus(), p.log, tail(p.log, 8))
		}
	}
	return nil
}

// tail is the last lines of a file, long ones cut.
func tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	var out strings.Builder
	for _, line := range all {
		if len(line) > 400 {
			line = append(line[:400:400], "…"...)
		}
		fmt.Fprintf(&out, "    %s\n", line)
	}
	return out.String()
}
