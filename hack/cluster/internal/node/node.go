// Package node brings up a one-node Kubernetes on this machine and takes it down
// again without a trace.
//
// Read [Cluster] first, then Up and Down. What Up changes on the machine goes
// through the journal of package machine before it happens; every process that Up
// starts carries a mark in its environment. From these two Down finds everything,
// even after a crash in the middle of Up.
package node

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/moqrelay/operator/hack/cluster/internal/build"
	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

// Dir is where a cluster lives: one per machine, because a machine has one set of
// kubelet ports, cgroups and proxy tables.
const Dir = "/var/lib/moqrelay-cluster"

// LockPath is the lock that keeps the users of the machine's one cluster apart.
const LockPath = "/run/moqrelay-cluster.lock"

const (
	nodeName = "node-1"
	bridge   = "moq0"
	network  = "moqrelay" // the CNI network's name
	mark     = "MOQ_CLUSTER_DIR"
)

// A Cluster is the one-node Kubernetes of this machine, up or not.
type Cluster struct {
	// Dir holds all of its files while it is up, and does not exist otherwise.
	Dir string
	// Cache has the binaries.
	Cache *build.Cache
	// Out takes what is done, step by step.
	Out io.Writer

	journal machine.Journal
	started []*process // by this call of Up
}

const (
	proc    = machine.Proc("/proc")
	sysctls = machine.Sysctls("/proc/sys")
)

// Kubeconfig is the file of the administrator's credentials; it exists while the
// cluster is up.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.pki(), "admin.kubeconfig") }

func (c *Cluster) pki() string         { return filepath.Join(c.Dir, "pki") }
func (c *Cluster) socket() string      { return filepath.Join(c.Dir, "containerd", "containerd.sock") }
func (c *Cluster) journalPath() string { return filepath.Join(c.Dir, "journal.json") }
func (c *Cluster) log(name string) string {
	return filepath.Join(c.Dir, "log", name+".log")
}

// marking is the environment entry of every process of this cluster.
func (c *Cluster) marking() string { return mark + "=" + c.Dir }

// record puts the journal on disk.
func (c *Cluster) record() error { return c.journal.Write(c.journalPath()) }

// gateway is the bridge's address: the first of the pods'.
func (c *Cluster) gateway() netip.Addr { return c.journal.Pods.Addr().Next() }

// service is the API server's address as a Service: the first of the range.
func (c *Cluster) service() netip.Addr { return c.journal.Services.Addr().Next() }

// dns is the address of the Service kube-dns: the tenth, as in every cluster.
func (c *Cluster) dns() netip.Addr { return nth(c.journal.Services, 10) }

// A step is a part of Up or Down that is shown with the time it took.
type step struct {
	name string
	do   func() error
}

func (c *Cluster) run(steps []step) error {
	for _, s := range steps {
		start := time.Now()
		fmt.Fprintf(c.Out, "  %-34s", s.name)
		if err := s.do(); err != nil {
			fmt.Fprintln(c.Out, " failed")
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(c.Out, " %6.2f s\n", time.Since(start).Seconds())
	}
	return nil
}

// Status prints what there is of the cluster. False means that it is not up.
func (c *Cluster) Status() (bool, error) {
	j, found, err := machine.ReadJournal(c.journalPath())
	if err != nil {
		return false, err
	}
	if holder, held := machine.HolderOf(LockPath); held {
		fmt.Fprintf(c.Out, "in use by %s (pid %d) since %s\n", holder.Who, holder.PID, holder.Since.Local().Format(time.DateTime))
	}
	running := proc.Marked(c.marking())
	switch {
	case !found && len(running) == 0:
		fmt.Fprintln(c.Out, "the cluster is down")
		return false, nil
	case j.Ready.IsZero() || j.Boot != machine.BootID():
		fmt.Fprintf(c.Out, "the cluster is half up (%d processes): remove it with the command down\n", len(running))
		return false, nil
	}
	c.journal = j
	fmt.Fprintf(c.Out, "up since %s\nnode %s at %s, pods %s, Services %s\nkubeconfig %s\n",
		j.Ready.Local().Format(time.DateTime), nodeName, j.Address, j.Pods, j.Services, c.Kubeconfig())
	return c.statusOfProcesses(running), nil
}

// statusOfProcesses prints a line per component and says whether all of them run.
func (c *Cluster) statusOfProcesses(running []machine.Process) bool {
	pids := map[string]int{}
	for _, p := range running {
		if name := programOf(p); pids[name] == 0 {
			pids[name] = p.PID
		}
	}
	all := true
	w := tabwriter.NewWriter(c.Out, 0, 8, 2, ' ', 0)
	for _, name := range components {
		state := "not running, log " + c.log(name)
		if pid := pids[name]; pid != 0 {
			state = fmt.Sprintf("pid %d", pid)
		} else {
			all = false
		}
		fmt.Fprintf(w, "%s\t%s\n", name, state)
	}
	_ = w.Flush()
	return all
}

// isUp says whether the journal is that of a complete cluster all of whose
// components run.
func (c *Cluster) isUp() (bool, error) {
	j, found, err := machine.ReadJournal(c.journalPath())
	if err != nil || !found || j.Ready.IsZero() || j.Boot != machine.BootID() {
		return false, err
	}
	c.journal = j
	quiet := Cluster{Dir: c.Dir, Out: io.Discard}
	return quiet.statusOfProcesses(proc.Marked(c.marking())), nil
}

// leftovers says whether there is something of a cluster on the machine.
func (c *Cluster) leftovers() bool {
	if _, err := os.Stat(c.Dir); err == nil {
		return true
	}
	return len(proc.Marked(c.marking())) > 0
}
