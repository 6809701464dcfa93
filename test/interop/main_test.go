//go:build interop

// Package interop runs relay processes, the public JavaScript client in Node and
// in a browser, and moq-load, all on loopback. Build tag interop; "make test"
// runs it. What the tests leave behind, such as screenshots and the logs of
// failed tests, is in build/interop.
package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// failsafe bounds every wait: nothing is expected to take nearly as long.
const failsafe = 60 * time.Second

// built is where the programs are, outputs where tests leave files.
var built, outputs string

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		code = 1
	}
	os.Exit(code)
}

// prepare builds the programs, installs the clients and runs the tests.
func prepare(m *testing.M) (int, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, err
	}
	outputs = filepath.Join(root, "build", "interop")
	built = filepath.Join(outputs, "bin")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return 0, err
	}
	install := exec.Command(filepath.Join(root, "hack", "interop-deps.sh"))
	build := exec.Command("go", "build", "-trimpath", "-o", built, "./cmd/relay", "./cmd/moq-load")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, cmd := range []*exec.Cmd{install, build} {
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s: %w", cmd, err)
		}
	}
	return m.Run(), nil
}
