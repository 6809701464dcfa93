package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sysctls is the tree of kernel settings, "/proc/sys" outside of tests.
type Sysctls string

// A Setting is a kernel setting and its value at some time.
type Setting struct {
	Key   string `json:"key"` // path below the tree: net/ipv4/ip_forward
	Value string `json:"value"`
}

// Save reads the settings that match the patterns (as in path.Match). What this
// kernel does not have is left out.
func (s Sysctls) Save(patterns []string) ([]Setting, error) {
	var out []Setting
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(string(s), pattern))
		if err != nil {
			return nil, fmt.Errorf("sysctl pattern %q: %w", pattern, err)
		}
		for _, f := range files {
			key, err := filepath.Rel(string(s), f)
			if err != nil {
				return nil, fmt.Errorf("sysctl %s: %w", f, err)
			}
			value, err := s.read(key)
			if err != nil {
				return nil, err
			}
			out = append(out, Setting{Key: key, Value: value})
		}
	}
	return out, nil
}

// Restore writes those settings that have another value now, in the order they
// were saved, and returns how many. A setting that is gone (a link's, with the
// link) is nobody's loss.
func (s Sysctls) Restore(saved []Setting) (int, error) {
	var failed []error
	changed := 0
	for _, one := range saved {
		now, err := s.read(one.Key)
		if errors.Is(err, os.ErrNotExist) || err == nil && now == one.Value {
			continue
		}
		if err == nil {
			err = s.Set(one.Key, one.Value)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		changed++
	}
	return changed, errors.Join(failed...)
}

// Differing lists the settings whose value is not the saved one.
func (s Sysctls) Differing(saved []Setting) []string {
	var out []string
	for _, one := range saved {
		now, err := s.read(one.Key)
		if err == nil && now != one.Value {
			out = append(out, fmt.Sprintf("%s is %s, was %s", one.Key, now, one.Value))
		}
	}
	return out
}

// Set writes one setting.
func (s Sysctls) Set(key, value string) error {
	if err := os.WriteFile(filepath.Join(string(s), key), []byte(value), 0o644); err != nil {
		return fmt.Errorf("set sysctl %s to %s: %w", key, value, err)
	}
	return nil
}

func (s Sysctls) read(key string) (string, error) {
	b, err := os.ReadFile(filepath.Join(string(s), key))
	if err != nil {
		return "", fmt.Errorf("sysctl %s: %w", key, err)
	}
	return strings.TrimSpace(string(b)), nil
}
