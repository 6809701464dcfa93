package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newProc makes a proc filesystem with one process, pid 77, that listens on TCP
// port 6443, and a zombie, pid 78.
func newProc(t *testing.T) Proc {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{
		"77/stat":    "77 (ngi) nx) S 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0",
		"77/comm":    "nginx\n",
		"77/cmdline": "/usr/sbin/nginx\x00-g\x00daemon off;\x00",
		"77/environ": "PATH=/bin\x00MARK=/a\x00",
		"78/stat":    "78 (nginx) Z 77 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0",
		"78/comm":    "nginx\n",
		"78/cmdline": "",
		"78/environ": "MARK=/a\x00",
		"net/tcp": "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"   0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n" +
			"   1: 0100007F:0050 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4243 1\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "77/fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("socket:[4242]", filepath.Join(root, "77/fd/5")); err != nil {
		t.Fatal(err)
	}
	return Proc(root)
}

func TestATakenPortIsReportedWithItsProcess(t *testing.T) {
	got, err := newProc(t).Conflicts([]Port{{6443, "kube-apiserver"}, {80, "web"}, {2379, "etcd"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "TCP port 6443 (for kube-apiserver) is taken by nginx (pid 77): /usr/sbin/nginx -g daemon off;"
	if len(got) != 1 || got[0].String() != want {
		t.Errorf("conflicts %v, want just %q: port 80 is a connection's, not a listener's", got, want)
	}
}

func TestAPortWhoseProcessIsHiddenIsReportedAllTheSame(t *testing.T) {
	proc := newProc(t)
	if err := os.Remove(filepath.Join(string(proc), "77/fd/5")); err != nil {
		t.Fatal(err)
	}
	got, err := proc.Conflicts([]Port{{6443, "kube-apiserver"}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "TCP port 6443 (for kube-apiserver) is taken by a process that cannot be seen from here"
	if len(got) != 1 || got[0].String() != want {
		t.Errorf("conflicts %v, want %q", got, want)
	}
}

func TestAMarkIsFoundByItsWholeValue(t *testing.T) {
	proc := newProc(t)
	if got := proc.Marked("MARK=/a"); len(got) != 1 || got[0].PID != 77 {
		t.Errorf("marked MARK=/a: %v, want pid 77 alone: 78 is a zombie", got)
	}
	for _, other := range []string{"MARK=/", "MARK=/ab", "ARK=/a"} {
		if got := proc.Marked(other); len(got) != 0 {
			t.Errorf("marked %s: %v, want none", other, got)
		}
	}
}

func TestAZombieWithThreadsHasNotEnded(t *testing.T) {
	const rest = " 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 "
	for stat, want := range map[string]bool{
		"5 (a) b) S" + rest + "1 0": false,
		"5 (a) b) Z" + rest + "1 0": true,
		"5 (a) b) Z" + rest + "9 0": false, // its other threads still hold what it had open
		"5 (a":                      false,
	} {
		if got := hasEnded([]byte(stat)); got != want {
			t.Errorf("%q has ended: %v, want %v", stat, got, want)
		}
	}
}

func TestStopEndsAProcessThatIgnoresTheRequest(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap "" TERM; echo ready; while :; do read -r _; done`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil { // the trap is set
		t.Fatal(err)
	}
	list := []Process{{PID: cmd.Process.Pid, Name: "sh"}}
	if err := Proc("/proc").Stop(list, 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v, want killed", err)
	}
}
