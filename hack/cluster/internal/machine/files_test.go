package machine

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestAStartedProgramHasNoneOfTheFilesThatWereHandedToThisOne(t *testing.T) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil { // as a shell hands it over: open across exec
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	held := os.NewFile(uintptr(pipe[1]), "held")
	defer held.Close()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pipe[1]))
	if err != nil {
		t.Fatal(err)
	}
	has := func() bool {
		out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(out), link)
	}
	if !has() {
		t.Fatalf("a child does not have %s in the first place", link)
	}
	if err := Proc("/proc").KeepFilesToSelf(); err != nil {
		t.Fatal(err)
	}
	if has() {
		t.Errorf("a child still has %s", link)
	}
}
