package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// StartOptions say how a relay is started to be measured. Command is required.
type StartOptions struct {
	// Command is the program and its arguments.
	Command []string
	// CPUs are the processors it may use; empty: all that this process may.
	CPUs []int
	// Target is where it will be. With an empty URL the first line on its standard
	// output must tell, as that of moq-relay does.
	Target Target
	// Output gets what it prints, but for that line; nil discards it.
	Output io.Writer
}

// A Started is a relay that runs.
type Started struct {
	// PID is its process.
	PID int
	// Target is where it is.
	Target Target
	// Status is HOST:PORT of its status port; empty: unknown.
	Status string
	// Peer is HOST:PORT of its port for other relays; empty: it has none, or is unknown.
	Peer string

	cmd   *exec.Cmd
	ended chan error // gets how it ended, once
}

// startTimeout is how long a relay may take until it answers.
const startTimeout = 20 * time.Second

// Start starts a relay and returns when it answers. The caller has to end it.
func Start(ctx context.Context, o StartOptions) (*Started, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("start the relay: no program is named")
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	cmd := exec.CommandContext(ctx, o.Command[0], o.Command[1:]...) //nolint:gosec // it is what the user asked for
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = o.Output
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	if err := pinned(o.CPUs, cmd.Start); err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	s := &Started{PID: cmd.Process.Pid, Target: o.Target, cmd: cmd, ended: make(chan error, 1)}
	first := make(chan string, 1)
	go func() {
		in := bufio.NewReader(out)
		line, _ := in.ReadString('\n')
		first <- line
		_, _ = io.Copy(o.Output, in)
		s.ended <- cmd.Wait()
	}()
	if err := s.await(ctx, first); err != nil {
		s.End()
		return nil, fmt.Errorf("start the relay %q: %w", strings.Join(o.Command, " "), err)
	}
	return s, nil
}

// await waits until the relay answers.
func (s *Started) await(ctx context.Context, first <-chan string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %v", startTimeout))
	defer cancel()
	if s.Target.URL == "" {
		select {
		case line := <-first:
			return s.addresses(line)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.Target.try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case ended := <-s.ended:
			s.ended <- ended
			return fmt.Errorf("it ended (%w)", ended)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// addresses reads the first line of moq-relay.
func (s *Started) addresses(line string) error {
	var udp, tcp string
	if _, err := fmt.Sscanf(line, "listening udp=%s tcp=%s status=%s", &udp, &tcp, &s.Status); err != nil {
		return fmt.Errorf("its first line is %q, not its addresses: see what it says, or name its URL too", strings.TrimSpace(line))
	}
	if _, peer, ok := strings.Cut(line, " peer="); ok {
		s.Peer = strings.TrimSpace(peer)
	}
	s.Target.URL = "http://" + tcp
	return nil
}

// try connects once.
func (t Target) try(ctx context.Context) error {
	l, err := t.resolve(ctx)
	if err != nil {
		return err
	}
	l.Timeout = time.Second
	conn, _, err := l.dial(ctx)
	if err != nil {
		return err
	}
	conn.Close(0, "")
	return nil
}

// End ends the relay and waits until it is gone.
func (s *Started) End() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	s.ended <- <-s.ended
}
