package relay

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/moqrelay/operator/relay/config"
)

// childOfDescriptors is set in the process that runs out of descriptors.
const childOfDescriptors = "MOQTEST_OUT_OF_DESCRIPTORS"

// The limit is the whole process's, so that another one has to run into it.
func TestARelayWithoutDescriptorsWaitsAndGoesOn(t *testing.T) {
	if os.Getenv(childOfDescriptors) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestARelayWithoutDescriptorsWaitsAndGoesOn$", "-test.v")
		cmd.Env = append(os.Environ(), childOfDescriptors+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	server := newServer(t, func(c *config.Config) { c.Log.Level = config.LevelError })
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = min(limit.Cur, 200)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for {
		f, err := os.Open("/dev/null")
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
	}
	_ = taken[0].Close() // one descriptor, for the client
	conn, err := net.Dial("tcp", server.addresses.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(ctx, t, "the stall", func() bool {
		stats := server.Stats()
		return stats.AcceptFailures["tcp"][failedExhausted] > 0 && stats.AcceptStalled["tcp"][failedExhausted] > 0
	})
	for _, f := range taken[1:] {
		_ = f.Close()
	}
	if code, body, _ := get(t, "http://"+server.addresses.TCP+"/health"); code != 200 || body != "ok" {
		t.Errorf("with descriptors again it answers %d %q", code, body)
	}
	if stalled := server.Stats().AcceptStalled["tcp"]; stalled != nil {
		t.Errorf("it is still stalled for %v", stalled)
	}
}
