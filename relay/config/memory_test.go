package config

import (
	"testing"
	"testing/fstest"
)

// tree is a file system of these files.
func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/meminfo": {Data: []byte("MemFree: 1 kB\nMemTotal:       16000000 kB\n")}}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	mountV2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1     = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	mountHybrid = "29 23 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" + mountV1
)

func TestTheMemoryLimitIsTheLeastOfMachineAndGroups(t *testing.T) {
	const machine = 16000000 * 1024
	tests := []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no groups", nil, machine},
		{"version 2 in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1073741824},
		{"version 2, limit at the parent", map[string]string{
			"proc/self/cgroup": "0::/pods/a/b\n", "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/pods/a/b/memory.max": "max\n", "sys/fs/cgroup/pods/a/memory.max": "500\n", "sys/fs/cgroup/pods/memory.max": "600\n",
		}, 500},
		{"version 2 without a limit", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "max\n",
		}, machine},
		{"version 1 seen with the host's paths", map[string]string{
			"proc/self/cgroup":                           "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
			"proc/self/mountinfo":                        "32 23 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "700\n",
		}, 700},
		{"version 1 without a limit", map[string]string{
			"proc/self/cgroup": "5:memory:/\n", "proc/self/mountinfo": mountV1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, machine},
		{"hybrid: version 1 has the memory", map[string]string{
			"proc/self/cgroup": "5:memory:/x\n0::/x\n", "proc/self/mountinfo": mountHybrid,
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "800\n",
		}, 800},
		{"a limit above the machine's memory", map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "99999999999999\n",
		}, machine},
		{"a path outside of what is mounted", map[string]string{
			"proc/self/cgroup": "0::/../other\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "900\n",
		}, 900},
		{"nonsense", map[string]string{
			"proc/self/cgroup": "x\n0::/\n", "proc/self/mountinfo": "y\n" + mountV2, "sys/fs/cgroup/memory.max": "-5\n",
		}, machine},
	}
	for _, tt := range tests {
		got, err := memoryLimit(tree(tt.files))
		if err != nil || got != tt.want {
			t.Errorf("%s: %d, %v, want %d", tt.name, got, err, tt.want)
		}
	}
}

func TestAMachineThatDoesNotTellItsMemoryIsAnError(t *testing.T) {
	if _, err := memoryLimit(fstest.MapFS{"proc/meminfo": {Data: []byte("MemFree: 1 kB\n")}}); err == nil {
		t.Error("no error without MemTotal")
	}
}

func TestThisMachineHasAMemoryLimit(t *testing.T) {
	got, err := MemoryLimit()
	if err != nil || got < 1<<20 || got > 1<<50 {
		t.Errorf("MemoryLimit() = %d, %v, want between 1 MiB and 1 PiB", got, err)
	}
}
