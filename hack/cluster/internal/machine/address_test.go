package machine

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func prefixesOf(all ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

var loopback = Interface{Name: "lo", Up: true, Loopback: true, Prefixes: prefixesOf("127.0.0.1/8", "::1/128")}

func TestNodeAddressPrefersTheDefaultRouteThenTheFirstInterfaceUp(t *testing.T) {
	eth0 := Interface{Name: "eth0", Up: true, Prefixes: prefixesOf("192.0.2.2/24", "fe80::1/64")}
	eth1 := Interface{Name: "eth1", Up: true, Default: true, Metric: 100, Prefixes: prefixesOf("10.1.0.5/16")}
	wlan := Interface{Name: "wlan0", Up: true, Default: true, Metric: 600, Prefixes: prefixesOf("10.2.0.5/16")}
	down := Interface{Name: "eth9", Default: true, Prefixes: prefixesOf("10.9.0.1/16")}
	local := Interface{Name: "usb0", Up: true, Prefixes: prefixesOf("169.254.3.4/16")}
	six := Interface{Name: "six0", Up: true, Default: true, Prefixes: prefixesOf("2001:db8::1/64")}
	for _, c := range []struct {
		name   string
		ifaces []Interface
		want   string // "" for none
	}{
		{"one interface without a default route", []Interface{loopback, eth0}, "192.0.2.2"},
		{"a default route beats order", []Interface{loopback, eth0, eth1}, "10.1.0.5"},
		{"the lower metric wins", []Interface{wlan, eth1}, "10.1.0.5"},
		{"equals: the first", []Interface{eth0, {Name: "eth2", Up: true, Prefixes: prefixesOf("198.51.100.1/24")}}, "192.0.2.2"},
		{"an interface that is down does not count", []Interface{down, eth0}, "192.0.2.2"},
		{"loopback alone", []Interface{loopback}, ""},
		{"a link-local address is none", []Interface{loopback, local}, ""},
		{"an IPv6 address is none", []Interface{loopback, six}, ""},
		{"an IPv6 default route does not hide an IPv4 address", []Interface{six, eth0}, "192.0.2.2"},
	} {
		got, _, ok := NodeAddress(c.ifaces)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s: %v, %v; want %q", c.name, got, ok, c.want)
		}
	}
}

// The bytes are in the order of a little-endian machine, as all that we run on.
const routeTable = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	50	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
`

func TestRoutesAreReadFromTheKernelsTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "route")
	if err := os.WriteFile(file, []byte(routeTable), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Routes(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Route{
		{Interface: "eth0", To: netip.MustParsePrefix("0.0.0.0/0"), Metric: 50},
		{Interface: "eth0", To: netip.MustParsePrefix("192.0.2.0/24")},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("routes %v, want %v", got, want)
	}
}

func TestABrokenRouteIsAnErrorThatQuotesIt(t *testing.T) {
	for _, line := range []string{"eth0 0000", "eth0 0000000X 0 0 0 0 0 0", "eth0 00000000 0 0 0 0 many 0"} {
		if _, err := parseRoute(line); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: error %v, want one that quotes the line", line, err)
		}
	}
}

func TestARangeThatTheMachineUsesIsNotTaken(t *testing.T) {
	candidates := prefixesOf("10.244.0.0/24", "10.144.0.0/24")
	got, err := FreeRange("pods", candidates, prefixesOf("192.0.2.0/24", "10.244.0.0/16"))
	if err != nil || got != candidates[1] {
		t.Errorf("with 10.244.0.0/16 in use: %v, %v; want %v", got, err, candidates[1])
	}
	_, err = FreeRange("pods", candidates, prefixesOf("10.0.0.0/8"))
	if err == nil || !strings.Contains(err.Error(), "pods") || !strings.Contains(err.Error(), "10.144.0.0/24") {
		t.Errorf("with 10.0.0.0/8 in use: error %v, want one that names the purpose and the ranges", err)
	}
}

func TestTheDefaultRouteTakesNoRange(t *testing.T) {
	taken := Taken([]Interface{loopback}, []Route{
		{Interface: "eth0", To: netip.MustParsePrefix("0.0.0.0/0")},
		{Interface: "eth0", To: netip.MustParsePrefix("192.0.2.0/24")},
	})
	if _, err := FreeRange("pods", prefixesOf("10.244.0.0/24"), taken); err != nil {
		t.Error(err)
	}
	if _, err := FreeRange("pods", prefixesOf("192.0.2.128/25"), taken); err == nil {
		t.Error("a range inside a routed network was taken")
	}
}
