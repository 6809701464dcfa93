package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moqrelay/operator/relay"
	"github.com/moqrelay/operator/relay/config"
)

// run executes a command line.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code = p.run(t.Context(), args)
	return code, out.String(), errs.String()
}

func TestABadFlagIsRefusedWithItsNameAndRange(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"pub ws://h --frames 0", "moq-load: --frames 0: 1 to 1048576 are possible\n"},
		{"pub ws://h --rate -1 --groups -2", "moq-load: --groups -2: 0 to 1099511627776 are possible\n--rate -1: 0 to 1e+06 are possible\n"},
		{"pub ws://h --hold-after 3,0", "moq-load: --hold-after 0: 1 to 1099511627776 are possible\n"},
		{"pub ws://h --size 5..4", `moq-load: invalid argument "5..4" for "--size" flag: a size or LOW..HIGH from 1 to 32Mi bytes is wanted` + "\n"},
		{"pub ws://h --since 0 --rate 0", "moq-load: --since needs a --rate\n"},
		{"pub ws://h --since noon", `moq-load: invalid argument "noon" for "--since" flag: a time such as 2006-01-02T15:04:05Z is wanted, or seconds since 1970` + "\n"},
		{"clock ws://h --epoch 1", `moq-load: invalid argument "1" for "--epoch" flag: a UUID that is not zero is wanted, such as 0193f3a0-1b2c-7d3e-8f40-000000000001` + "\n"},
		{"pub", "moq-load: no relay is named: add its URL, such as http://127.0.0.1:4443 for one that `moq-relay serve --dev` runs\n"},
		{"sub ws://h ws://i", "moq-load: 2 URLs are given ([\"ws://h\" \"ws://i\"]): this command takes 1\n"},
		{"fanout", "moq-load: there is no relay: name its URL, or a command that starts one with --start\n"},
		{"fanout ws://h --viewers 0 --size 43", "moq-load: --viewers 0: 1 to 100000 are possible\n--size 43: 44 to 33554432 are possible\n"},
		{"fanout ws://h --start relay --relay-pid 1", "moq-load: --relay-pid names a relay that runs, --start starts another: use one of them\n"},
		{"fanout ws://h --live", "moq-load: --live is for a relay that --start starts, with --pprof in its command\n"},
		{"fanout ws://h --hops 2", "moq-load: --hops is for relays that --start starts, and that name their addresses themselves: leave the URL out\n"},
		{"sub ws://h --duration 48h", "moq-load: --duration 172800: 0 to 86400 are possible\n"},
		{"sub ws://h --version 6", `moq-load: --version "6": moq-lite-03 to moq-lite-06, moq-lite-06-wip and moq-lite-07-wip are spoken` + "\n"},
		{"sub ws://h --idle-timeout 10ms", "moq-load: --idle-timeout 10ms: at least a second is wanted\n"},
		{"sub h:4443", `moq-load: relay URL "h:4443": the scheme is "h"; moqt, moql, https, http, wss and ws are spoken` + "\n"},
		{"clock ws://h --rate 0", "moq-load: --rate 0: 1 to 1000 are possible\n"},
		{"clock ws://h --transport tcp", `moq-load: --transport "tcp": quic, webtransport and websocket are spoken` + "\n"},
	} {
		code, stdout, stderr := run(t, strings.Fields(row.args)...)
		command, _, _ := strings.Cut(row.args, " ")
		want := row.want + "next: moq-load " + command + " --help has all flags and examples\n"
		if code != 2 || stdout != "" || stderr != want {
			t.Errorf("%s: exit %d\n%s%swant exit 2\n%s", row.args, code, stdout, stderr, want)
		}
	}
}

func TestARelayThatIsNotThereIsExitCodeOne(t *testing.T) {
	code, _, stderr := run(t, "sub", "ws://127.0.0.1:1")
	if code != 1 || !strings.HasPrefix(stderr, "moq-load: connect over websocket: ") ||
		!strings.Contains(stderr, "\nnext: is a relay there? `moq-relay serve --dev` runs one on this machine") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// startRelay runs a relay in this process and returns HOST:PORT.
func startRelay(t *testing.T) string {
	t.Helper()
	base := config.Development()
	base.Listen, base.Status.Listen = "127.0.0.1:0", "127.0.0.1:0"
	loaded, err := config.Load(config.Source{Base: &base})
	if err != nil {
		t.Fatal(err)
	}
	server, err := relay.New(relay.Options{Loaded: loaded})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := server.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ran })
	return addresses.TCP
}

func TestBothSidesPrintTheSameHashesAndWhatTheyDid(t *testing.T) {
	url := "http://" + startRelay(t)
	type result struct {
		code        int
		out, errors string
	}
	published := make(chan result, 1)
	go func() {
		var r result
		r.code, r.out, r.errors = run(t, "pub", url, "--wait", "--groups", "2", "--frames", "2", "--rate", "0", "--size", "10", "--hashes", "--transport", "quic")
		published <- r
	}()
	code, out, errors := run(t, "sub", url, "--hashes", "--quiet", "--version", "moq-lite-05")
	pub := <-published
	if code != 0 || pub.code != 0 {
		t.Fatalf("exit %d and %d:\n%s\n%s", code, pub.code, errors, pub.errors)
	}
	seen := strings.Count(out, "frame ")
	for line := range strings.Lines(pub.out) {
		if strings.HasPrefix(line, "frame ") && !strings.Contains(out, line) {
			t.Errorf("published %q, which the viewer has not printed", line)
		}
	}
	if seen != 4 || !strings.Contains(out, "watched 4 frames, 40 bytes") || !strings.Contains(pub.out, "published 4 frames, 40 bytes") {
		t.Errorf("the viewer printed\n%sthe publisher\n%s", out, pub.out)
	}
	if !strings.Contains(out, "\nsummary frames=4 bytes=40 groups=2 cut=0 missing=0 gaps=0 longest_gap=0 corrupt=0 resets=0 reconnects=0 moves=0 longest_stall_ms=") ||
		!strings.HasSuffix(out, " first=0 last=1 ended=true\n") {
		t.Errorf("the viewer's last line: %s", out)
	}
	if !strings.Contains(errors, "over webtransport, moq-lite-05") || !strings.Contains(pub.errors, "over quic, moq-lite-06") {
		t.Errorf("told: %s%s", errors, pub.errors)
	}
}

func TestFanoutMeasuresARelayThatRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	code, out, errors := run(t, "fanout", "http://"+startRelay(t), "--transport", "quic", "--viewers", "3", "--stalled", "1",
		"--size", "1Ki", "--keyframe", "4Ki", "--rate", "10", "--duration", "2s", "--idle", "1s", "--history", "1s", "--json", file)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errors)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Frames, ExpectedFrames, LostSessions int
		DeliveredPercent                     float64
		Relay                                *struct{}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	// 3 viewers, 20 frames each. How many come within a second depends on the machine.
	if report.Frames > 60 || report.ExpectedFrames != 60 || report.DeliveredPercent > 100 {
		t.Errorf("results %s", b)
	}
	if report.Relay != nil || !strings.Contains(out, "name its process with --relay-pid") {
		t.Errorf("a relay whose process is not known was measured: %s%s", b, out)
	}
	if !strings.Contains(out, fmt.Sprintf(" %%: %d of 60 frames; %d sessions lost\n", report.Frames, report.LostSessions)) {
		t.Errorf("printed\n%s", out)
	}
}
