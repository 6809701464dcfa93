package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

// resolvConf has the machine's own name servers, which are asked for names outside
// of the cluster.
const resolvConf = "/etc/resolv.conf"

// dnsPatience is how long one question may wait: a packet that was sent before
// kube-proxy's rules were there is lost.
const dnsPatience = 500 * time.Millisecond

// resolvers is file when it names a name server; without one it is empty, and names
// outside of the cluster are refused.
func resolvers(file string) (string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("name servers: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return file, nil
		}
	}
	return "", nil
}

// announceDNS gives the DNS server its Service and its permissions, before it starts.
func (c *Cluster) announceDNS(ctx context.Context) error {
	_, err := machine.Run(ctx, filepath.Join(c.Cache.Bin(), "kubectl"), "--kubeconfig", c.Kubeconfig(),
		"apply", "--server-side", "-f", filepath.Join(c.Dir, "dns.yaml"))
	return err
}

// dnsReady waits until a name is answered at the Service's address, as a pod asks.
func (c *Cluster) dnsReady(ctx context.Context) error {
	server := netip.AddrPortFrom(c.dns(), 53).String()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, server)
	}}
	const name = "kubernetes.default.svc.cluster.local."
	return c.wait(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, dnsPatience)
		defer cancel()
		got, err := resolver.LookupNetIP(ctx, "ip4", name)
		if err == nil && (len(got) != 1 || got[0].Unmap() != c.service()) {
			err = fmt.Errorf("%s is %v, want %s", name, got, c.service())
		}
		return err
	})
}
