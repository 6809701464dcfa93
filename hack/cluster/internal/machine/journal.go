package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Journal is what the cluster changed on the machine. Each entry is on disk
// before the change is made, so that whoever cleans up after a crash finds it.
type Journal struct {
	// Boot is the kernel's boot id. After a reboot only files are left of a cluster.
	Boot    string    `json:"boot"`
	Started time.Time `json:"started"`
	// Ready is when the cluster was complete; zero while it comes up, and for ever
	// when it never did.
	Ready time.Time `json:"ready,omitzero"`

	Address  netip.Addr   `json:"address,omitzero"`  // the node's
	Pods     netip.Prefix `json:"pods,omitzero"`     // addresses of pods
	Services netip.Prefix `json:"services,omitzero"` // addresses of Services

	Links   []string  `json:"links,omitempty"`   // made by us
	Tables  []string  `json:"tables,omitempty"`  // nft tables, "ip kube-proxy", that come with us
	Cgroups []string  `json:"cgroups,omitempty"` // folders that were not there before
	Folders []string  `json:"folders,omitempty"` // folders outside of ours that were not there before, parents first
	Sysctls []Setting `json:"sysctls,omitempty"` // values from before
}

// ReadJournal reads the journal at path. False means that there is none.
func ReadJournal(path string) (Journal, bool, error) {
	var j Journal
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return j, false, nil
	}
	if err != nil {
		return j, false, fmt.Errorf("journal: %w", err)
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, false, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, true, nil
}

// Write replaces the journal at path as a whole: a reader or a crash sees the old
// one or the new one.
func (j *Journal) Write(path string) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := writeSynced(path+".new", b); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// BootID is the kernel's id of the present boot.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// Absent lists those of paths that do not exist.
func Absent(paths []string) []string {
	var out []string
	for _, p := range paths {
		if _, err := os.Lstat(p); errors.Is(err, os.ErrNotExist) {
			out = append(out, p)
		}
	}
	return out
}

// RemoveEmptied removes those of folders, and the empty folders in them, that hold
// no file: what is in use by somebody else stays. Children go first.
func RemoveEmptied(folders []string) {
	for i := len(folders) - 1; i >= 0; i-- {
		removeEmpty(folders[i])
	}
}

func removeEmpty(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeEmpty(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir) // fails on a folder that is not empty, as it should
}
