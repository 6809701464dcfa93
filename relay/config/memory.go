package config

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// MemoryLimit returns how many bytes of memory the process may use: the least of
// the machine's memory and the limits of its control groups, version 1, version
// 2 or both. It fails where the machine does not tell its memory.
func MemoryLimit() (int64, error) { return memoryLimit(os.DirFS("/")) }

// memoryLimit is MemoryLimit on the file system root.
func memoryLimit(root fs.FS) (int64, error) {
	limit, err := machineMemory(root)
	if err != nil {
		return 0, err
	}
	for _, dir := range memoryGroups(root) {
		limit = min(limit, dir.limit(root))
	}
	return limit, nil
}

// machineMemory reads MemTotal.
func machineMemory(root fs.FS) (int64, error) {
	data, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 50)
		return kib * 1024, err
	}
	return 0, errors.New("proc/meminfo has no MemTotal")
}

// group is a control group that may limit memory.
type group struct {
	mount string // where its hierarchy is mounted, without the leading slash
	path  string // the group's path below the mount
	file  string // the name of the file with the limit
}

// memoryGroups returns the groups of this process in the mounted hierarchies
// that know memory.
func memoryGroups(root fs.FS) []group {
	v1, v2 := ownPaths(root)
	data, _ := fs.ReadFile(root, "proc/self/mountinfo")
	var groups []group
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, MaxFile)
	for scanner.Scan() {
		m, ok := parseMount(scanner.Text())
		switch {
		case !ok:
		case m.kind == "cgroup2" && v2 != "":
			groups = append(groups, group{m.point, below(m.root, v2), "memory.max"})
		case m.kind == "cgroup" && v1 != "" && hasWord(m.options, "memory"):
			groups = append(groups, group{m.point, below(m.root, v1), "memory.limit_in_bytes"})
		}
	}
	return groups
}

// ownPaths returns the process's group in version 1's memory hierarchy and in
// version 2's; empty where it is in none. Lines are "ID:CONTROLLERS:PATH".
func ownPaths(root fs.FS) (v1, v2 string) {
	data, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0" && fields[1] == "":
			v2 = fields[2]
		case hasWord(fields[1], "memory"):
			v1 = fields[2]
		}
	}
	return v1, v2
}

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct{ root, point, kind, options string }

// parseMount reads a line: "ID PARENT DEV ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE SUPEROPTIONS".
func parseMount(line string) (mount, bool) {
	front, back, _ := strings.Cut(line, " - ")
	f, b := strings.Fields(front), strings.Fields(back)
	if len(f) < 6 || len(b) < 3 {
		return mount{}, false
	}
	return mount{root: f[3], point: strings.Trim(f[4], "/"), kind: b[0], options: b[2]}, true
}

// below returns the group's path below the mount, whose own place in the
// hierarchy is root. A container without a cgroup namespace sees the host's
// paths and a mount of its own group alone: both are then the same.
func below(root, own string) string {
	if rest, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/")); ok {
		return strings.Trim(rest, "/")
	}
	return ""
}

// hasWord reports whether a comma-separated list has the word.
func hasWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

// limit returns the least limit from the group up to the mount.
func (g group) limit(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	for dir := g.path; ; dir = path.Dir(dir) {
		data, _ := fs.ReadFile(root, path.Join(g.mount, dir, g.file))
		// "max" is no number, and the root of version 2 has no such file: no limit.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
		if dir == "" || dir == "." {
			return least
		}
	}
}
