package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// KeepFilesToSelf closes, in every program that this one starts from now on, the
// files that it was itself started with, the three standard ones aside. A daemon
// that kept the writing end of somebody's pipe would make the reader wait for it
// for ever.
func (p Proc) KeepFilesToSelf() error {
	entries, err := os.ReadDir(filepath.Join(string(p), "self", "fd"))
	if err != nil {
		return fmt.Errorf("open files: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd) // one that is closed by now is no matter
		}
	}
	return nil
}
