package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Where names the source and, in a file, the line: "relay.yaml:3",
	// "--windows-stream", "MOQ_WINDOWS_STREAM"; empty for a default.
	Where string
	// Key is the dotted name of the key.
	Key string
	// Text says what is wrong, and what is accepted.
	Text string
}

// String returns "where: key: text".
func (f Fault) String() string {
	line := f.Key + ": " + f.Text
	if f.Key == "" {
		line = f.Text
	}
	if f.Where == "" {
		return line
	}
	return f.Where + ": " + line
}

// Faults is everything that is wrong with a configuration, as an error.
type Faults []Fault

// Error returns one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Validate returns nil or the [Faults] of c, all of them.
func (c Config) Validate() error {
	var faults Faults
	bad := map[string]bool{}
	for _, k := range keys {
		if err := k.at(&c).check(); err != nil {
			bad[k.Name] = true
			faults = append(faults, k.fault(err))
		}
	}
	faults = append(faults, c.conflicts(bad)...)
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// fault says that the key's value is wrong.
func (k Key) fault(err error) Fault {
	if errors.Is(err, errRequired) {
		return Fault{Key: k.Name, Text: "is required; accepted: " + k.Range()}
	}
	return Fault{Key: k.Name, Text: fmt.Sprintf("%v; accepted: %s", err, k.Range())}
}

// rule is what must hold between keys. It is reported under the first.
type rule struct {
	keys  []string
	check func(c Config) string // what is wrong; empty when nothing is
}

// conflicts checks the rules whose keys are not already known to be bad: a
// second complaint about the same mistake helps nobody.
func (c Config) conflicts(bad map[string]bool) Faults {
	var faults Faults
	for _, r := range slices.Concat(rules, authRules, clusterRules) {
		if anyOf(bad, r.keys) {
			continue
		}
		if text := r.check(c); text != "" {
			faults = append(faults, Fault{Key: r.keys[0], Text: text})
		}
	}
	return faults
}

// anyOf reports whether one of the names is in the set.
func anyOf(set map[string]bool, names []string) bool {
	for _, n := range names {
		if set[n] {
			return true
		}
	}
	return false
}

var rules = []rule{
	{[]string{"windows.connection", "windows.stream"}, func(c Config) string {
		conn, stream := c.Windows.Connection, c.Windows.Stream
		if conn >= 2*stream {
			return ""
		}
		return fmt.Sprintf("%d is less than 2 × windows.stream (2 × %d = %d)", conn, stream, 2*stream)
	}},
	{[]string{"transports.quic.state", "transports.webSocket.state"}, func(c Config) string {
		if c.Transports.QUIC.State.On() || c.Transports.WebSocket.State.On() {
			return ""
		}
		return "Disabled, and transports.webSocket.state too: at least one transport must be Enabled"
	}},
	{[]string{"transports.webTransport.state", "transports.quic.state"}, func(c Config) string {
		if !c.Transports.WebTransport.State.On() || c.Transports.QUIC.State.On() {
			return ""
		}
		return "Enabled needs transports.quic.state Enabled"
	}},
	{[]string{"transports.qmuxDrafts", "transports.webSocket.state"}, func(c Config) string {
		if !c.Transports.WebSocket.State.On() || len(c.Transports.QMuxDrafts) > 0 {
			return ""
		}
		return "an empty list with transports.webSocket.state Enabled; accepted: at least one of 00, 01, 02"
	}},
	{[]string{"tls.directories", "tls.mode"}, func(c Config) string {
		n := len(c.TLS.Directories)
		switch {
		case c.TLS.Mode == Files && n == 0:
			return "is required when tls.mode is Files; accepted: 1 to 17 directory paths"
		case c.TLS.Mode == SelfSigned && n > 0:
			return "must be empty when tls.mode is SelfSigned"
		}
		return ""
	}},
	{[]string{"limits.maxFrame", "limits.groupTail"}, func(c Config) string {
		return over(c.Limits.MaxFrame, "limits.groupTail", c.Limits.GroupTail)
	}},
	{[]string{"windows.pacingCap", "limits.groupTail"}, func(c Config) string {
		return over(c.Windows.PacingCap, "limits.groupTail", c.Limits.GroupTail)
	}},
	{[]string{"drain.goawaySpreadSeconds", "drain.timeoutSeconds"}, func(c Config) string {
		spread, timeout := c.Drain.GoawaySpreadSeconds, c.Drain.TimeoutSeconds
		if spread == nil || *spread <= timeout {
			return ""
		}
		return fmt.Sprintf("%d is more than drain.timeoutSeconds (%d)", *spread, timeout)
	}},
}

// over says that a number of bytes is more than another key's; empty when it is not.
func over(n Bytes, name string, most Bytes) string {
	if n <= most {
		return ""
	}
	return fmt.Sprintf("%v is more than %s (%v)", n, name, most)
}
