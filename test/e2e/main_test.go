//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// stageVariable says which of the three runs of the test binary this one is.
const (
	stageVariable = "MOQ_E2E_STAGE"
	stageGuard    = "guard"
	stageTests    = "tests"
)

func TestMain(m *testing.M) {
	code, err := 1, error(nil)
	switch os.Getenv(stageVariable) {
	case stageTests:
		code, err = tests(m)
	case stageGuard:
		code, err = guard()
	default:
		err = hold()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/e2e:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// hold becomes a holder of the cluster's lock, under which the guard runs.
func hold() error {
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root: run make test-e2e as root")
	}
	for _, made := range []string{"dist/images/names", "bin/manifests"} {
		if _, err := os.Stat(inRoot(made)); err != nil {
			return fmt.Errorf("%s is missing: run make test-e2e, which makes it", made)
		}
	}
	build := exec.Command("go", "build", "-C", inRoot("hack/cluster"), "-trimpath", "-o", clusterProgram(), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build hack/cluster: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := append([]string{clusterProgram(), "hold", "--as", "make test-e2e", "--", self}, os.Args[1:]...)
	return syscall.Exec(argv[0], argv, append(os.Environ(), stageVariable+"="+stageGuard))
}

func clusterProgram() string { return inRoot("bin/cluster") }

// inRoot is the absolute path of a file of the repository.
func inRoot(name string) string {
	path, err := filepath.Abs(filepath.Join("../..", name))
	if err != nil {
		panic(err)
	}
	return path
}

// guard runs the tests between up and down.
func guard() (code int, err error) {
	// Ctrl-C reaches all processes of the terminal; the tests end by it, the guard
	// goes on to clean up. SIGTERM comes to the guard alone, and is passed on below.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	keep := os.Getenv("E2E_KEEP") != ""
	if exec.Command(clusterProgram(), "status").Run() == nil && !keep {
		return 1, errors.New("a cluster is up already, perhaps the demo's: remove it with make demo-down")
	}
	before := readSysctls()
	defer func() {
		err = errors.Join(err, before.restore())
		if !keep {
			err = errors.Join(err, cluster("down"))
		}
	}()
	if err := cluster("up"); err != nil {
		return 1, err
	}
	if err := cluster("load", inRoot("dist/images/moq-relay-operator.tar"), inRoot("dist/images/moq-relay.tar")); err != nil {
		return 1, err
	}
	return runTests(signals)
}

func cluster(args ...string) error {
	cmd := exec.Command(clusterProgram(), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w", args[0], err)
	}
	return nil
}

// runTests runs the innermost of the three. It dies with the guard.
func runTests(signals <-chan os.Signal) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stageVariable+"="+stageTests)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(done)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// tests installs the operator and runs the tests.
func tests(m *testing.M) (int, error) {
	flag.Parse()
	// They wait more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		return 1, err
	}
	if err := connect(); err != nil {
		return 1, err
	}
	if err := installByChart(context.Background()); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// sysctls are values of the node's socket buffer limits.
type sysctls map[string]string

var socketLimits = []string{"/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max"}

func readSysctls() sysctls {
	values := sysctls{}
	for _, path := range socketLimits {
		if b, err := os.ReadFile(path); err == nil {
			values[path] = string(b)
		}
	}
	return values
}

// restore writes the values back.
func (s sysctls) restore() error {
	var failed []error
	for path, value := range s {
		failed = append(failed, os.WriteFile(path, []byte(value), 0o644))
	}
	return errors.Join(failed...)
}
