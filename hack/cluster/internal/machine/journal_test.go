package machine

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAJournalIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	want := Journal{
		Boot: "b", Started: time.Unix(1, 0).UTC(),
		Address: netip.MustParseAddr("192.0.2.2"),
		Pods:    netip.MustParsePrefix("10.244.0.0/24"),
		Links:   []string{"moq0"}, Tables: []string{"ip kube-proxy"},
		Cgroups: []string{"/sys/fs/cgroup/kubepods"}, Folders: []string{"/run/containerd"},
		Sysctls: []Setting{{"net/ipv4/ip_forward", "0"}},
	}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, found, err := ReadJournal(path)
	if err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, %v; want %+v", got, found, err, want)
	}
	if !got.Ready.IsZero() {
		t.Errorf("a cluster that never came up has Ready %v, want zero", got.Ready)
	}
}

func TestNoJournalIsNoError(t *testing.T) {
	_, found, err := ReadJournal(filepath.Join(t.TempDir(), "journal.json"))
	if found || err != nil {
		t.Errorf("found %v, %v; want false and nil", found, err)
	}
}

func TestABrokenJournalIsAnErrorThatNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadJournal(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names %s", err, path)
	}
}

func TestFoldersOfOthersAndFoldersInUseStay(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	if err := os.MkdirAll(in("before"), 0o755); err != nil {
		t.Fatal(err)
	}
	absent := Absent([]string{in("before"), in("made"), in("made/s"), in("used")})
	if want := []string{in("made"), in("made/s"), in("used")}; !slices.Equal(absent, want) {
		t.Fatalf("absent %v, want %v", absent, want)
	}
	for _, dir := range []string{"made/s/deep", "used"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(in("used/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	RemoveEmptied(absent)
	if got := Absent([]string{in("before"), in("made"), in("used")}); !slices.Equal(got, []string{in("made")}) {
		t.Errorf("gone are %v, want only %s", got, in("made"))
	}
}
