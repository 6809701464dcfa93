package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroupRoot is where every distribution mounts the hierarchies.
const cgroupRoot = "/sys/fs/cgroup"

// Cgroups says how this machine groups processes.
type Cgroups struct {
	// Mode is "v2", "hybrid" (v1 controllers beside an unused v2 tree) or "v1".
	Mode string
	// Roots are the mount points below which a container runtime makes groups:
	// one per v1 hierarchy, and the v2 tree.
	Roots []string
}

// needed are the v1 controllers without which the kubelet does not start.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// DetectCgroups reads a mount table in the form of /proc/mounts. A machine without
// the controllers that the kubelet needs is an error that names them.
func DetectCgroups(mounts string) (Cgroups, error) {
	var c Cgroups
	var controllers []string
	unified := ""
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[1], cgroupRoot) {
			continue
		}
		switch f[2] {
		case "cgroup":
			c.Roots = append(c.Roots, f[1])
			controllers = append(controllers, strings.Split(f[3], ",")...)
		case "cgroup2":
			c.Roots = append(c.Roots, f[1])
			unified = f[1]
		}
	}
	switch {
	case unified == cgroupRoot:
		c.Mode = "v2"
		return c, nil
	case len(c.Roots) == 0:
		return c, fmt.Errorf("no cgroup hierarchy is mounted below %s: the kubelet cannot run here", cgroupRoot)
	case unified != "":
		c.Mode = "hybrid"
	default:
		c.Mode = "v1"
	}
	return c, missingControllers(controllers)
}

func missingControllers(have []string) error {
	var missing []string
	for _, n := range needed {
		if !slices.Contains(have, n) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroup controllers that the kubelet needs are not mounted below %s: %s", cgroupRoot, strings.Join(missing, ", "))
	}
	return nil
}

// Groups lists the folder name below every root, whether it exists or not.
func (c Cgroups) Groups(name string) []string {
	var out []string
	for _, r := range c.Roots {
		out = append(out, filepath.Join(r, name))
	}
	return out
}

// KillGroup kills every process in the group dir and in those below it.
func KillGroup(dir string) error {
	var failed []error
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			return nil // a group that is gone by now holds nobody
		}
		failed = append(failed, killListed(path))
		return nil
	})
	return errors.Join(failed...)
}

func killListed(procs string) error {
	b, err := os.ReadFile(procs)
	if err != nil {
		return nil
	}
	for _, f := range strings.Fields(string(b)) {
		var pid int
		if _, err := fmt.Sscan(f, &pid); err != nil || pid <= 1 {
			continue // 0: a process of another PID namespace
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of %s: %w", pid, procs, err)
		}
	}
	return nil
}

// RemoveGroup removes the group dir and those below it, deepest first. The kernel
// keeps a group busy until its last process is reaped, so it tries until the
// deadline.
func RemoveGroup(dir string, until time.Time) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := removeTree(dir)
		if err == nil || time.Now().After(until) {
			return err
		}
		<-tick.C
	}
}

// removeTree calls rmdir on folders alone: the files in a group cannot be removed
// and go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cgroup %s: %w", dir, err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove cgroup %s: %w", dir, err)
	}
	return nil
}
