package node

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/moqrelay/operator/hack/cluster/internal/build"
	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

// components are the cluster's daemons, in the order of their start.
var components = []string{
	"containerd", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns", "kubelet", "kube-proxy",
}

// Ports are the TCP ports that the cluster listens on: the API server's and the
// kubelet's on the node's address, DNS (UDP too) on the bridge's, the others on
// loopback.
type Ports struct {
	API, Kubelet                 int
	Etcd, EtcdPeer               int
	ControllerManager, Scheduler int
	KubeletHealth, ProxyHealth   int
	ProxyMetrics, DNS            int
}

// ports are the numbers that every Kubernetes uses, so that two on one machine
// notice each other. DNS is at port 53 of its Service alone: the machine may have
// a name server of its own on the real one.
var ports = Ports{
	API: 6443, Kubelet: 10250,
	Etcd: 2379, EtcdPeer: 2380,
	ControllerManager: 10257, Scheduler: 10259,
	KubeletHealth: 10248, ProxyHealth: 10256, ProxyMetrics: 10249, DNS: 10053,
}

func (p Ports) list() []machine.Port {
	return []machine.Port{
		{Number: p.API, Program: "kube-apiserver"},
		{Number: p.Kubelet, Program: "kubelet"},
		{Number: p.KubeletHealth, Program: "the kubelet's health"},
		{Number: p.Etcd, Program: "etcd"},
		{Number: p.EtcdPeer, Program: "etcd peers"},
		{Number: p.ControllerManager, Program: "kube-controller-manager"},
		{Number: p.Scheduler, Program: "kube-scheduler"},
		{Number: p.ProxyHealth, Program: "kube-proxy's health"},
		{Number: p.ProxyMetrics, Program: "kube-proxy's metrics"},
		{Number: p.DNS, Program: "coredns"},
	}
}

//go:embed config
var templates embed.FS

// values are what the templates below config/ are filled with.
type values struct {
	Dir, PKI, Socket, Node      string
	Pause, Plugins, Snapshotter string
	Network, Bridge             string
	Pods                        netip.Prefix
	Address, Gateway, DNS       netip.Addr
	Ports                       Ports
	Resolvers                   string
}

func (c *Cluster) values() (values, error) {
	outside, err := resolvers(resolvConf)
	v := values{
		Dir: c.Dir, PKI: c.pki(), Socket: c.socket(), Node: nodeName,
		Pause: build.PauseImage, Plugins: machine.Plugins(), Snapshotter: "overlayfs",
		Network: network, Bridge: bridge,
		Pods: c.journal.Pods, Address: c.journal.Address, Gateway: c.gateway(),
		DNS: c.dns(), Ports: ports, Resolvers: outside,
	}
	if machine.OnOverlay(c.Dir) {
		v.Snapshotter = "native" // copies instead of layers: slower, but works on an overlay
	}
	return v, err
}

// nth is the n-th address of a range, 0 being the network's own.
func nth(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr()
	for range n {
		a = a.Next()
	}
	return a
}

// configs maps each template to the file it becomes in the cluster's folder.
var configs = map[string]string{
	"containerd.toml": "containerd.toml",
	"bridge.conflist": "cni/10-moqrelay.conflist",
	"kubelet.yaml":    "kubelet.yaml",
	"proxy.yaml":      "proxy.yaml",
	"scheduler.yaml":  "scheduler.yaml",
	"Corefile":        "Corefile",
	"dns.yaml":        "dns.yaml",
}

func (c *Cluster) writeConfigs() error {
	v, err := c.values()
	if err != nil {
		return err
	}
	for from, to := range configs {
		b, err := render(from, v)
		if err != nil {
			return err
		}
		file := filepath.Join(c.Dir, to)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
	}
	return nil
}

func render(name string, v values) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(templates, path.Join("config", name))
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// command is how the component is called, without its program's path.
func (c *Cluster) command(name string) []string {
	switch name {
	case "containerd":
		return []string{"--config", filepath.Join(c.Dir, "containerd.toml")}
	case "etcd":
		return c.etcd()
	case "kube-apiserver":
		return c.apiServer()
	case "kube-controller-manager":
		return c.controllerManager()
	case "kube-scheduler":
		return []string{
			"--config=" + filepath.Join(c.Dir, "scheduler.yaml"),
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports.Scheduler),
			"--tls-cert-file=" + c.key("scheduler.crt"), "--tls-private-key-file=" + c.key("scheduler.key"),
		}
	case "coredns":
		return []string{"-conf=" + filepath.Join(c.Dir, "Corefile")}
	case "kubelet":
		return []string{
			"--config=" + filepath.Join(c.Dir, "kubelet.yaml"), "--kubeconfig=" + c.key("kubelet.kubeconfig"),
			"--hostname-override=" + nodeName, "--node-ip=" + c.journal.Address.String(),
			"--root-dir=" + filepath.Join(c.Dir, "kubelet"), "--cert-dir=" + filepath.Join(c.Dir, "kubelet", "pki"),
		}
	case "kube-proxy":
		return []string{"--config=" + filepath.Join(c.Dir, "proxy.yaml")}
	}
	panic("no component " + name)
}

func (c *Cluster) key(file string) string { return filepath.Join(c.pki(), file) }

// etcd listens on loopback, with certificates: whoever reaches it without asking
// the API server owns the cluster. What it stores need not survive a power cut.
func (c *Cluster) etcd() []string {
	client := fmt.Sprintf("https://127.0.0.1:%d", ports.Etcd)
	peer := fmt.Sprintf("https://127.0.0.1:%d", ports.EtcdPeer)
	args := []string{
		"--name=" + nodeName, "--data-dir=" + filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + nodeName + "=" + peer,
		"--unsafe-no-fsync", "--log-level=warn",
	}
	for _, side := range []string{"", "peer-"} {
		args = append(args,
			"--"+side+"cert-file="+c.key("etcd.crt"), "--"+side+"key-file="+c.key("etcd.key"),
			"--"+side+"trusted-ca-file="+c.key("ca.crt"), "--"+side+"client-cert-auth")
	}
	return args
}

// apiServer listens on the node's address alone: pods reach it there by way of the
// Service.
func (c *Cluster) apiServer() []string {
	const issuer = "https://kubernetes.default.svc.cluster.local"
	return []string{
		"--bind-address=" + c.journal.Address.String(), "--advertise-address=" + c.journal.Address.String(),
		"--secure-port=" + strconv.Itoa(ports.API),
		"--etcd-servers=" + fmt.Sprintf("https://127.0.0.1:%d", ports.Etcd), "--etcd-cafile=" + c.key("ca.crt"),
		"--etcd-certfile=" + c.key("apiserver-etcd.crt"), "--etcd-keyfile=" + c.key("apiserver-etcd.key"),
		"--tls-cert-file=" + c.key("apiserver.crt"), "--tls-private-key-file=" + c.key("apiserver.key"),
		"--client-ca-file=" + c.key("ca.crt"), "--cert-dir=" + filepath.Join(c.Dir, "apiserver"),
		"--service-account-issuer=" + issuer, "--service-account-key-file=" + c.key("sa.pub"),
		"--service-account-signing-key-file=" + c.key("sa.key"),
		"--service-cluster-ip-range=" + c.journal.Services.String(),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--kubelet-client-certificate=" + c.key("apiserver-kubelet.crt"), "--kubelet-client-key=" + c.key("apiserver-kubelet.key"),
		"--kubelet-certificate-authority=" + c.key("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		// With one client at a time there is nothing to be fair about.
		"--enable-priority-and-fairness=false",
	}
}

func (c *Cluster) controllerManager() []string {
	return []string{
		"--kubeconfig=" + c.key("controller-manager.kubeconfig"),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports.ControllerManager),
		"--tls-cert-file=" + c.key("controller-manager.crt"), "--tls-private-key-file=" + c.key("controller-manager.key"),
		"--root-ca-file=" + c.key("ca.crt"), "--service-account-private-key-file=" + c.key("sa.key"),
		"--use-service-account-credentials=true", "--leader-elect=false",
		"--cluster-cidr=" + c.journal.Pods.String(), "--allocate-node-cidrs=false",
		// The default of 20 requests a second makes the start of its controllers,
		// each with a service account of its own, take three seconds more.
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
}

// programOf is the component that a process is.
func programOf(p machine.Process) string {
	argv0, _, _ := strings.Cut(p.Args, " ")
	return filepath.Base(argv0)
}
