package machine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func newSysctls(t *testing.T, values map[string]string) Sysctls {
	t.Helper()
	root := t.TempDir()
	for key, value := range values {
		path := filepath.Join(root, key)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Sysctls(root)
}

func TestRestoreWritesOnlyWhatHasChanged(t *testing.T) {
	s := newSysctls(t, map[string]string{
		"net/ipv4/ip_forward":           "0",
		"net/ipv4/conf/eth0/forwarding": "0",
		"net/ipv4/conf/gone/forwarding": "0",
		"kernel/panic":                  "-1",
		"kernel/other":                  "5",
	})
	saved, err := s.Save([]string{"net/ipv4/ip_forward", "net/ipv4/conf/*/forwarding", "kernel/panic", "not/there"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Setting{
		{"net/ipv4/ip_forward", "0"},
		{"net/ipv4/conf/eth0/forwarding", "0"},
		{"net/ipv4/conf/gone/forwarding", "0"},
		{"kernel/panic", "-1"},
	}
	if !slices.Equal(saved, want) {
		t.Fatalf("saved %v, want %v", saved, want)
	}
	for key, value := range map[string]string{"net/ipv4/ip_forward": "1", "kernel/panic": "10", "kernel/other": "6"} {
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(string(s), "net/ipv4/conf/gone")); err != nil {
		t.Fatal(err)
	}
	wantDiffering := []string{"net/ipv4/ip_forward is 1, was 0", "kernel/panic is 10, was -1"}
	if got := s.Differing(saved); !slices.Equal(got, wantDiffering) {
		t.Errorf("differing %q, want %q", got, wantDiffering)
	}
	if n, err := s.Restore(saved); n != 2 || err != nil {
		t.Errorf("restored %d, %v; want 2", n, err)
	}
	if got := s.Differing(saved); len(got) != 0 {
		t.Errorf("after the restore these differ: %q", got)
	}
	if got, err := s.read("kernel/other"); got != "6" || err != nil {
		t.Errorf("kernel/other is %q, %v; it was not saved and must stay 6", got, err)
	}
}
