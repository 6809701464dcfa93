package machine

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// An Interface is what the choice of the node's address needs to know of a
// network interface.
type Interface struct {
	Name     string
	Up       bool
	Loopback bool
	// Metric is that of the interface's IPv4 default route; it counts only when
	// Default is set. The lowest wins, as in the kernel.
	Metric  int
	Default bool
	// Prefixes are the interface's addresses with their network's length.
	Prefixes []netip.Prefix
}

// NodeAddress picks the IPv4 address that the node is reached at: that of the
// interface with the best default route, else of the first other interface that
// is up. Loopback and link-local addresses never count: pods could not reach the
// API server there. False means that the machine has none, and the caller must
// bring one (the pod bridge's own address will do).
func NodeAddress(ifaces []Interface) (netip.Addr, string, bool) {
	var best *Interface
	for i := range ifaces {
		c := &ifaces[i]
		if !c.Up || c.Loopback || !c.address().IsValid() {
			continue
		}
		if best == nil || c.betterThan(best) {
			best = c
		}
	}
	if best == nil {
		return netip.Addr{}, "", false
	}
	return best.address(), best.Name, true
}

// betterThan is false for equals, so that the first one in order stays.
func (i *Interface) betterThan(o *Interface) bool {
	if i.Default != o.Default {
		return i.Default
	}
	return i.Default && i.Metric < o.Metric
}

// address is the interface's first usable IPv4 address; the zero value if none.
func (i *Interface) address() netip.Addr {
	for _, p := range i.Prefixes {
		if a := p.Addr(); a.Is4() && a.IsGlobalUnicast() {
			return a
		}
	}
	return netip.Addr{}
}

// Interfaces lists the machine's network interfaces.
func Interfaces() ([]Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("network interfaces: %w", err)
	}
	routes, err := Routes("/proc/net/route")
	if err != nil {
		return nil, err
	}
	var out []Interface
	for _, n := range list {
		i := Interface{Name: n.Name, Up: n.Flags&net.FlagUp != 0, Loopback: n.Flags&net.FlagLoopback != 0}
		addrs, err := n.Addrs()
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", n.Name, err)
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				i.Prefixes = append(i.Prefixes, p)
			}
		}
		i.setDefault(routes)
		out = append(out, i)
	}
	return out, nil
}

func (i *Interface) setDefault(routes []Route) {
	for _, r := range routes {
		if r.Interface != i.Name || r.To.Bits() != 0 {
			continue
		}
		if !i.Default || r.Metric < i.Metric {
			i.Default, i.Metric = true, r.Metric
		}
	}
}

// A Route is a row of the kernel's IPv4 routing table.
type Route struct {
	Interface string
	To        netip.Prefix // 0.0.0.0/0 is the default route
	Metric    int
}

// Routes reads the table from file, which has the form of /proc/net/route.
func Routes(file string) ([]Route, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("routing table: %w", err)
	}
	defer f.Close()
	var out []Route
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for lines.Scan() {
		r, err := parseRoute(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, r)
	}
	return out, lines.Err()
}

// parseRoute reads one line: name, destination, gateway, flags, references, use,
// metric, mask; addresses are hexadecimal in the machine's byte order.
func parseRoute(line string) (Route, error) {
	f := strings.Fields(line)
	if len(f) < 8 {
		return Route{}, fmt.Errorf("route %q: %d fields, want at least 8", line, len(f))
	}
	to, err1 := strconv.ParseUint(f[1], 16, 32)
	metric, err2 := strconv.Atoi(f[6])
	mask, err3 := strconv.ParseUint(f[7], 16, 32)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return Route{}, fmt.Errorf("route %q: %w", line, err)
		}
	}
	var a [4]byte
	binary.NativeEndian.PutUint32(a[:], uint32(to))
	return Route{
		Interface: f[0],
		To:        netip.PrefixFrom(netip.AddrFrom4(a), bits.OnesCount32(uint32(mask))),
		Metric:    metric,
	}, nil
}

// FreeRange picks the first of candidates that overlaps none of taken. what names
// the purpose in the error.
func FreeRange(what string, candidates, taken []netip.Prefix) (netip.Prefix, error) {
	for _, c := range candidates {
		if !overlaps(c, taken) {
			return c, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("no free address range for %s: each of %v overlaps a network of this machine", what, candidates)
}

func overlaps(p netip.Prefix, others []netip.Prefix) bool {
	for _, o := range others {
		if p.Overlaps(o) {
			return true
		}
	}
	return false
}

// Taken lists the networks that the machine is on or has a route to, the default
// route aside.
func Taken(ifaces []Interface, routes []Route) []netip.Prefix {
	var out []netip.Prefix
	for _, i := range ifaces {
		for _, p := range i.Prefixes {
			out = append(out, p.Masked())
		}
	}
	for _, r := range routes {
		if r.To.Bits() > 0 {
			out = append(out, r.To)
		}
	}
	return out
}
