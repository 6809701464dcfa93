package machine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// MountsBelow lists the mount points in dir, in the order of the mount table,
// which has the form of /proc/mounts.
func MountsBelow(table, dir string) []string {
	var out []string
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		at := unescape.Replace(f[1])
		if at == dir || strings.HasPrefix(at, dir+"/") {
			out = append(out, at)
		}
	}
	return out
}

// unescape undoes what the kernel does to blanks in a mount point.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Mounts is the machine's mount table.
func Mounts() (string, error) {
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "", fmt.Errorf("mount table: %w", err)
	}
	return string(b), nil
}

// Unmount unmounts everything in dir, the last mounted first. A busy one is
// detached: it goes when its last user does.
func Unmount(dir string) error {
	table, err := Mounts()
	if err != nil {
		return err
	}
	var failed []error
	for _, at := range slices.Backward(MountsBelow(table, dir)) {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			failed = append(failed, fmt.Errorf("unmount %s: %w", at, err))
		}
	}
	return errors.Join(failed...)
}

// overlayMagic is the filesystem type of an overlay, as statfs gives it.
const overlayMagic = 0x794c7630

// OnOverlay says whether dir is on an overlay filesystem, as in most containers:
// no second overlay can be laid on it.
func OnOverlay(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Type == overlayMagic
}
