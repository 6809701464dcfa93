package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const v1Mounts = `proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
`

func TestCgroupModeFollowsFromTheMounts(t *testing.T) {
	for _, c := range []struct {
		name, mounts, mode string
		roots              int
	}{
		{"v1 alone", v1Mounts, "v1", 4},
		{"v1 with an unused v2 tree", v1Mounts + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "hybrid", 5},
		{"v2", "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n", "v2", 1},
	} {
		got, err := DetectCgroups(c.mounts)
		if err != nil || got.Mode != c.mode || len(got.Roots) != c.roots {
			t.Errorf("%s: %+v, %v; want %s with %d roots", c.name, got, err, c.mode, c.roots)
		}
	}
}

func TestAMachineWithoutTheNeededControllersIsRefusedByName(t *testing.T) {
	mounts := strings.ReplaceAll(v1Mounts, "/sys/fs/cgroup/pids", "/somewhere/pids")
	if _, err := DetectCgroups(mounts); err == nil || !strings.HasSuffix(err.Error(), ": pids") {
		t.Errorf("without the pids controller: %v, want an error that names it", err)
	}
	if _, err := DetectCgroups("proc /proc proc rw 0 0\n"); err == nil {
		t.Error("a machine without any hierarchy passed")
	}
}

func TestGroupsAreOnePerRoot(t *testing.T) {
	c := Cgroups{Roots: []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory"}}
	want := []string{"/sys/fs/cgroup/cpu/kubepods", "/sys/fs/cgroup/memory/kubepods"}
	if got := c.Groups("kubepods"); !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
}

func TestAGroupIsRemovedWithThoseBelowIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubepods")
	if err := os.MkdirAll(filepath.Join(dir, "burstable", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := RemoveGroup(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if err := RemoveGroup(dir, time.Now()); err != nil {
		t.Errorf("a group that is gone: %v, want nil", err)
	}
}

func TestAGroupThatStaysBusyIsAnErrorThatNamesIt(t *testing.T) {
	dir := t.TempDir()
	busy := filepath.Join(dir, "pod1")
	if err := os.MkdirAll(busy, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(busy, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := RemoveGroup(dir, time.Now()); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("error %v, want one that names %s", err, busy)
	}
}
