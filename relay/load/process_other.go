//go:build !linux

package load

import (
	"errors"
	"time"
)

// usage is what the kernel says of a process at one time.
type usage struct {
	rss, peak int64
	cpu       time.Duration
	drops     uint64
}

var errLinux = errors.New("processes are measured and pinned on Linux alone")

func usageOf(int) (usage, error) { return usage{}, errLinux }

// Busy is how much processor time everything on this machine has used; 0 where
// that is not known.
func Busy() time.Duration { return 0 }

func loadAverage() float64 { return 0 }

// Pin confines this process to processors, on Linux.
func Pin([]int) error { return errLinux }

func pinned(cpus []int, start func() error) error {
	if len(cpus) > 0 {
		return errLinux
	}
	return start()
}
