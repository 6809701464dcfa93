package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The limits of the kernel. They are global, but a file of the initial network
// namespace: elsewhere it is read-only or, before Linux 6.10, not there.
const (
	receiveLimit = "/proc/sys/net/core/rmem_max"
	sendLimit    = "/proc/sys/net/core/wmem_max"
)

// readLimits returns the limits as this network namespace shows them; 0 where
// it does not.
func readLimits() limits {
	receive, _ := readLimit(receiveLimit)
	send, _ := readLimit(sendLimit)
	return limits{receive, send}
}

// readLimit reads one limit.
func readLimit(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

// raise enters the node's network namespace on a thread of its own, raises the
// limits there to what is wanted, at most o.MaxNodeBuffer, and returns what they
// are then; zero where it was not let in. It waits for the thread to have left
// the namespace again.
func raise(ctx context.Context, want limits, o Options) (node limits, raised bool, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = inNamespace(o.namespaces(), func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			receive, errReceive := raiseLimit(receiveLimit, min(want.receive, o.MaxNodeBuffer))
			send, errSend := raiseLimit(sendLimit, min(want.send, o.MaxNodeBuffer))
			raised = receive || send
			node = readLimits()
			return errors.Join(errReceive, errSend)
		})
	}()
	<-done
	return node, raised, err
}

// raiseLimit writes the limit if it is lower, and reports whether it did.
func raiseLimit(path string, want int64) (raised bool, err error) {
	now, err := readLimit(path)
	if err != nil {
		return false, fmt.Errorf("read the node's limit: %w", err)
	}
	if now >= want {
		return false, nil
	}
	// Without O_CREATE and O_TRUNC: this is a switch of the kernel, not a file.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false, fmt.Errorf("raise the node's limit from %d to %d: %w", now, want, err)
	}
	defer f.Close()
	if _, err := f.WriteString(strconv.FormatInt(want, 10)); err != nil {
		return false, fmt.Errorf("raise the node's limit from %d to %d: %w", now, want, err)
	}
	return true, nil
}

// inNamespace calls do inside the first of the network namespaces that lets us
// in. It must be called on a goroutine of its own: a thread that cannot leave
// the namespace again ends with it.
func inNamespace(paths []string, do func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("find the own network namespace: %w", err)
	}
	defer own.Close()
	if err := enterFirst(paths); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = do()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back == nil {
		runtime.UnlockOSThread()
	}
	return err
}

// enterFirst enters the first network namespace that lets this thread in.
func enterFirst(paths []string) error {
	var refused []error
	for _, path := range paths {
		err := enter(path)
		if err == nil {
			return nil
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}

// enter moves this thread into the network namespace of that file.
func enter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter the node's network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the node's network namespace: setns %s: %w", path, err)
	}
	return nil
}
