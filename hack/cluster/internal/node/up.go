package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moqrelay/operator/hack/cluster/internal/machine"
	"github.com/moqrelay/operator/hack/cluster/internal/pki"
)

// proxyTables are the nft tables that kube-proxy makes.
var proxyTables = []string{"ip kube-proxy", "ip6 kube-proxy"}

// groupNames are the cgroups that the kubelet and runc make at the top of each
// hierarchy.
var groupNames = []string{"kubepods", "k8s.io"}

// outside are the folders outside of the cluster's own whose place is compiled
// into containerd, the CNI library, the kubelet and mount(8); parents first.
var outside = []string{
	"/run/mount",
	"/run/containerd", "/run/containerd/s", "/var/lib/cni", "/var/lib/cni/results",
	"/var/log/containers", "/var/lib/kubelet", "/var/lib/kubelet/device-plugins",
}

// touched are the sysctls that the kubelet, the CNI plugins, this program and the
// relay's preflight write. The switch for forwarding comes before its values per
// link, because writing it sets them all.
var touched = []string{
	"net/ipv4/ip_forward", "net/ipv4/conf/*/forwarding",
	"net/core/rmem_max", "net/core/wmem_max", "net/core/rmem_default", "net/core/wmem_default",
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	"vm/overcommit_memory", "vm/panic_on_oom",
}

// podRanges and serviceRanges are tried in order until one overlaps no network of
// the machine.
var (
	podRanges     = prefixes("10.244.0.0/24", "10.144.0.0/24", "172.30.244.0/24", "192.168.244.0/24")
	serviceRanges = prefixes("10.96.0.0/24", "10.106.0.0/24", "172.30.96.0/24", "192.168.196.0/24")
)

func prefixes(all ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Up brings the cluster up; one that is up already is left as it is. A machine
// that has another kubelet, a taken port or the remains of a cluster is refused
// before anything is changed, with all reasons at once. When Up fails later, what
// it has done stays for a look at the logs, and Down removes it.
func (c *Cluster) Up(ctx context.Context) error {
	up, err := c.isUp()
	if err != nil {
		return err
	}
	if up {
		fmt.Fprintf(c.Out, "the cluster is up already, since %s: node %s at %s, kubeconfig %s\n",
			c.journal.Ready.Local().Format(time.DateTime), nodeName, c.journal.Address, c.Kubeconfig())
		return nil
	}
	start := time.Now()
	if err := c.Cache.Ensure(ctx); err != nil {
		return err
	}
	fmt.Fprintln(c.Out, "bringing up the cluster")
	if err := c.run(c.upSteps(ctx)); err != nil {
		if !errors.Is(err, errRemains) && c.leftovers() {
			err = fmt.Errorf("%w\nremove what there is of it with the command down", err)
		}
		return err
	}
	fmt.Fprintf(c.Out, "up after %.1f s: node %s at %s, kubeconfig %s\n",
		time.Since(start).Seconds(), nodeName, c.journal.Address, c.Kubeconfig())
	return nil
}

func (c *Cluster) upSteps(ctx context.Context) []step {
	starting := func(names ...string) func() error {
		return func() error {
			var failed error
			for _, n := range names {
				failed = errors.Join(failed, c.start(n))
			}
			return failed
		}
	}
	return []step{
		{"check the machine", func() error { return c.check(ctx) }},
		{"save what will be changed", c.begin},
		{"network", func() error { return c.network(ctx) }},
		{"keys and configuration", c.prepare},
		{"start containerd, etcd, API server", starting("containerd", "etcd", "kube-apiserver")},
		{"containerd and the pause image", func() error { return c.loadPause(ctx) }},
		{"API server", func() error { return c.apiReady(ctx) }},
		{"the DNS server's Service", func() error { return c.announceDNS(ctx) }},
		{"start the others", starting("kube-controller-manager", "kube-scheduler", "coredns", "kubelet", "kube-proxy")},
		{"node", func() error { return c.nodeReady(ctx) }},
		{"Service addresses", func() error { return c.proxyReady(ctx) }},
		{"Service names", func() error { return c.dnsReady(ctx) }},
		{"write down that it is up", c.finish},
	}
}

var errRemains = errors.New("there are remains of a cluster")

// check changes nothing. It reports everything that stands in the way.
func (c *Cluster) check(ctx context.Context) error {
	if c.leftovers() {
		// Most other findings would be its own ports and links.
		return fmt.Errorf("%w (%s): remove them with the command down", errRemains, c.Dir)
	}
	failed := []error{machine.Advice(machine.Missing(machine.Requirements, machine.Installed))}
	for _, p := range proc.Named("kubelet", "k3s", "k3s-server", "k0s") {
		failed = append(failed, fmt.Errorf("another Kubernetes node runs on this machine: %s: %s", p, p.Args))
	}
	conflicts, err := proc.Conflicts(ports.list())
	failed = append(failed, err)
	for _, conflict := range conflicts {
		failed = append(failed, errors.New(conflict.String()))
	}
	if machine.LinkExists(bridge) {
		failed = append(failed, fmt.Errorf("the network interface %s exists and is not ours", bridge))
	}
	failed = append(failed, foreignTables(ctx))
	return errors.Join(failed...)
}

func foreignTables(ctx context.Context) error {
	if !machine.Installed(machine.Requirement{Program: "nft"}) {
		return nil // said among the missing programs
	}
	tables, err := machine.Tables(ctx, proxyTables)
	if err == nil && len(tables) > 0 {
		err = fmt.Errorf("the nft tables of another kube-proxy exist: %s", strings.Join(tables, ", "))
	}
	return err
}

// begin makes the cluster's folder and writes the journal.
func (c *Cluster) begin() error {
	mounts, err := machine.Mounts()
	if err != nil {
		return err
	}
	groups, err := machine.DetectCgroups(mounts)
	if err != nil {
		return err
	}
	saved, err := sysctls.Save(touched)
	if err != nil {
		return err
	}
	c.journal = machine.Journal{
		Boot: machine.BootID(), Started: time.Now(),
		Tables: proxyTables, Folders: machine.Absent(outside), Sysctls: saved,
	}
	for _, name := range groupNames {
		c.journal.Cgroups = append(c.journal.Cgroups, machine.Absent(groups.Groups(name))...)
	}
	if err := c.chooseAddresses(); err != nil {
		return err
	}
	c.journal.Links = []string{bridge}
	if err := os.MkdirAll(filepath.Join(c.Dir, "log"), 0o755); err != nil {
		return fmt.Errorf("cluster's folder: %w", err)
	}
	return c.record()
}

// chooseAddresses picks the node's address and the ranges. A machine that has only
// loopback gives the node the bridge's address.
func (c *Cluster) chooseAddresses() error {
	ifaces, err := machine.Interfaces()
	if err != nil {
		return err
	}
	routes, err := machine.Routes("/proc/net/route")
	if err != nil {
		return err
	}
	taken := machine.Taken(ifaces, routes)
	if c.journal.Pods, err = machine.FreeRange("pods", podRanges, taken); err != nil {
		return err
	}
	if c.journal.Services, err = machine.FreeRange("Services", serviceRanges, taken); err != nil {
		return err
	}
	address, _, ok := machine.NodeAddress(ifaces)
	if !ok {
		address = c.gateway()
	}
	c.journal.Address = address
	return nil
}

// network makes the bridge before the first pod does, because the node may be
// reached at its address, and turns on forwarding.
func (c *Cluster) network(ctx context.Context) error {
	address := netip.PrefixFrom(c.gateway(), c.journal.Pods.Bits())
	if err := machine.AddBridge(ctx, bridge, address, c.journal.Services); err != nil {
		return err
	}
	return sysctls.Set("net/ipv4/ip_forward", "1")
}

func (c *Cluster) prepare() error {
	names := pki.Names{Node: nodeName, Address: c.journal.Address, Service: c.service(), Port: ports.API}
	if err := pki.Write(c.pki(), names); err != nil {
		return err
	}
	return c.writeConfigs()
}

func (c *Cluster) loadPause(ctx context.Context) error {
	err := c.wait(ctx, func(ctx context.Context) error {
		_, err := machine.Run(ctx, c.ctr("version")...)
		return err
	})
	if err != nil {
		return err
	}
	_, err = machine.Run(ctx, c.ctr("images", "import", c.Cache.PauseTar())...)
	return err
}

func (c *Cluster) apiReady(ctx context.Context) error {
	api, err := c.newAPI()
	if err != nil {
		return err
	}
	return c.wait(ctx, func(ctx context.Context) error { return api.get(ctx, "/readyz", nil) })
}

// nodeReady waits for all that a pod needs: a ready node without taint, and the
// service account that pods of the default namespace run as.
func (c *Cluster) nodeReady(ctx context.Context) error {
	api, err := c.newAPI()
	if err != nil {
		return err
	}
	if err := c.wait(ctx, api.nodeReady); err != nil {
		return err
	}
	return c.wait(ctx, func(ctx context.Context) error {
		return api.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
	})
}

// proxyReady waits until kube-proxy has written its rules.
func (c *Cluster) proxyReady(ctx context.Context) error {
	client := &http.Client{Timeout: 5 * time.Second}
	url := fmt.Sprintf("http://127.0.0.1:%d/healthz", ports.ProxyHealth)
	return c.wait(ctx, func(ctx context.Context) error {
		if err := get(ctx, client, url, nil); err != nil {
			return err
		}
		tables, err := machine.Tables(ctx, proxyTables)
		if err == nil && !slices.Contains(tables, proxyTables[0]) {
			err = fmt.Errorf("no nft table %s yet", proxyTables[0])
		}
		return err
	})
}

func (c *Cluster) finish() error {
	c.journal.Ready = time.Now()
	return c.record()
}

// ctr is the command line of containerd's client, for the kubelet's images.
func (c *Cluster) ctr(args ...string) []string {
	return append([]string{"ctr", "--address", c.socket(), "--namespace", "k8s.io"}, args...)
}
