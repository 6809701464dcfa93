package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestABadFlagIsRefusedByItsNameWithItsRange(t *testing.T) {
	for flag, want := range map[string]string{
		"--relay-image=":                      "--relay-image: must have 1 to 512 characters, has 0",
		"--namespaces=media,Bad_Name":         `--namespaces: "Bad_Name" is not a namespace's name`,
		"--host-access=some":                  `--host-access: must be labeled or all, is "some"`,
		"--max-node-buffer=1Ki":               `--max-node-buffer: must be a size of 208Ki to 512Mi, is "1Ki"`,
		"--max-node-buffer=513Mi":             `--max-node-buffer: must be a size of 208Ki to 512Mi, is "513Mi"`,
		"--max-node-buffer=big":               `--max-node-buffer: must be a size of 208Ki to 512Mi, is "big"`,
		"--concurrency=0":                     "--concurrency: must be 1 to 256, is 0",
		"--concurrency=257":                   "--concurrency: must be 1 to 256, is 257",
		"--concurrency=many":                  `"--concurrency"`,
		"--collect-interval=4s":               "--collect-interval: must be 5s to 10m0s, or 0 to turn it off; is 4s",
		"--collect-interval=11m":              "--collect-interval: must be 5s to 10m0s, or 0 to turn it off; is 11m0s",
		"--metrics-bind-address=8080":         `--metrics-bind-address: must be HOST:PORT with a port of 0 to 65535, or 0 to turn it off; is "8080"`,
		"--health-probe-bind-address=h:66000": `--health-probe-bind-address: must be HOST:PORT`,
		"--leader-elect-namespace=-x":         `--leader-elect-namespace: "-x" is not a namespace's name`,
		"--log-level=loud":                    `--log-level: must be debug, info, warn or error, is "loud"`,
		"--log-format=xml":                    `--log-format: must be json or text, is "xml"`,
		"--no-such-flag":                      "--no-such-flag",
		"positional":                          `takes no argument, got "positional"`,
	} {
		_, err := execute(t, flag)
		if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a usage error with %s", flag, err, want)
		}
	}
}

func TestAllBadFlagsAreReportedAtOnce(t *testing.T) {
	_, err := execute(t, "--concurrency=0", "--log-level=loud", "--host-access=some")
	want := "--concurrency: must be 1 to 256, is 0\n--host-access: must be labeled or all, is \"some\"\n--log-level: must be debug, info, warn or error, is \"loud\""
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestVersionIsOneLine(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		out, err := execute(t, arg)
		if err != nil || !strings.HasPrefix(out, "moq-relay-operator ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s prints %q, %v; want one line with name and version", arg, out, err)
		}
	}
}
