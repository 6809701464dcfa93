//go:build !linux

package preflight

import (
	"context"
	"errors"
	"runtime"
)

// errUnsupported is the answer of systems that have none of this.
var errUnsupported = errors.New("not supported on " + runtime.GOOS)

// kernel is not told outside Linux.
func kernel() string { return "" }

// readLimits has nothing to read outside Linux.
func readLimits() limits { return limits{} }

// ask cannot tell what was granted outside Linux.
func ask(limits) (got limits, gso bool, err error) { return limits{}, false, errUnsupported }

// raise has nothing to raise outside Linux.
func raise(context.Context, limits, Options) (node limits, raised bool, err error) {
	return limits{}, false, errUnsupported
}
