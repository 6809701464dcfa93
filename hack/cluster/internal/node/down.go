package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moqrelay/operator/hack/cluster/internal/machine"
)

// Down removes everything that Up made or changed, whether Up came to its end or
// not, and says at the end what it looked for and did not find. It goes on after a
// failure, so that one thing that sticks leaves no others behind; then the journal
// stays and Down can be called again.
func (c *Cluster) Down(ctx context.Context) error {
	if !c.leftovers() {
		fmt.Fprintln(c.Out, "the cluster is down already")
		return nil
	}
	if err := c.recall(); err != nil {
		return err
	}
	start := time.Now()
	fmt.Fprintln(c.Out, "taking down the cluster")
	var failed []error
	for _, s := range c.downSteps(ctx) {
		failed = append(failed, c.run([]step{s}))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("%w\nnot all of it is gone; call the command down again", err)
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("cluster's folder: %w", err)
	}
	fmt.Fprintf(c.Out, "down after %.1f s\n", time.Since(start).Seconds())
	return nil
}

// recall reads what there is to undo. After a reboot that is only files. Without a
// journal, because somebody removed or broke it, the names that Up always uses have
// to do, and the old values of sysctls are lost.
func (c *Cluster) recall() error {
	journal, found, err := machine.ReadJournal(c.journalPath())
	switch {
	case err == nil && found && journal.Boot == machine.BootID():
		c.journal = journal
		return nil
	case err == nil && found:
		c.journal = machine.Journal{Folders: journal.Folders}
		return nil
	case err == nil:
		err = errors.New("there is no journal")
	}
	fmt.Fprintf(c.Out, "%v: sysctls stay as they are now\n", err)
	mounts, err := machine.Mounts()
	if err != nil {
		return err
	}
	groups, err := machine.DetectCgroups(mounts)
	if err != nil {
		return err
	}
	c.journal = machine.Journal{Links: []string{bridge}, Tables: proxyTables}
	for _, name := range groupNames {
		c.journal.Cgroups = append(c.journal.Cgroups, groups.Groups(name)...)
	}
	return nil
}

func (c *Cluster) downSteps(ctx context.Context) []step {
	return []step{
		{"stop kubelet and kube-proxy", func() error { return c.stop("kubelet", "kube-proxy") }},
		{"kill the pods", c.killPods},
		{"stop the others", c.stopAll},
		{"unmount", func() error { return machine.Unmount(c.Dir) }},
		{"network", func() error { return c.removeNetwork(ctx) }},
		{"cgroups", c.removeGroups},
		{"files elsewhere", c.removeOutside},
		{"sysctls", c.restoreSysctls},
		{"look for anything left", func() error { return c.verify(ctx) }},
	}
}

// stop stops components by name. The kubelet goes first: it would start again
// what is killed after it.
func (c *Cluster) stop(names ...string) error {
	list := slices.DeleteFunc(proc.Marked(c.marking()), func(p machine.Process) bool {
		return !slices.Contains(names, programOf(p))
	})
	return proc.Stop(list, 10*time.Second)
}

// killPods kills the containers' processes by their cgroups; then the shims that
// watch them end by themselves or with the others.
func (c *Cluster) killPods() error {
	var failed []error
	for _, g := range c.journal.Cgroups {
		failed = append(failed, machine.KillGroup(g))
	}
	return errors.Join(failed...)
}

// stopAll stops whatever carries the mark. The API server would take ten seconds to
// say good-bye, and shims ignore every signal but the last; nothing that they could
// save is kept, so they get a second.
func (c *Cluster) stopAll() error {
	return proc.Stop(proc.Marked(c.marking()), time.Second)
}

func (c *Cluster) removeNetwork(ctx context.Context) error {
	var failed []error
	for _, l := range c.journal.Links {
		failed = append(failed, machine.RemoveLink(ctx, l))
	}
	if len(c.journal.Tables) > 0 {
		failed = append(failed, machine.RemoveTables(ctx, c.journal.Tables))
	}
	return errors.Join(failed...)
}

func (c *Cluster) removeGroups() error {
	until := time.Now().Add(10 * time.Second)
	var failed []error
	for _, g := range c.journal.Cgroups {
		failed = append(failed, machine.RemoveGroup(g, until))
	}
	return errors.Join(failed...)
}

// removeOutside removes our files in folders that belong to others, and those of
// the folders that were not there before and are empty now.
func (c *Cluster) removeOutside() error {
	files := slices.Concat(c.shimSockets(), c.networkResults(), c.logLinks())
	if slices.Contains(c.journal.Folders, "/var/lib/kubelet") {
		plugins, _ := filepath.Glob("/var/lib/kubelet/device-plugins/*")
		files = append(files, plugins...)
	}
	var failed []error
	for _, f := range files {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remove: %w", err))
		}
	}
	machine.RemoveEmptied(c.journal.Folders)
	return errors.Join(failed...)
}

// shimSockets are the sockets of the shims that were killed; each pod's bundle
// says where its shim's is.
func (c *Cluster) shimSockets() []string {
	var out []string
	bundles, _ := filepath.Glob(filepath.Join(c.Dir, "containerd/state/io.containerd.runtime.v2.task/k8s.io/*/address"))
	for _, b := range bundles {
		address, err := os.ReadFile(b)
		if err != nil {
			continue
		}
		if at, ok := bytes.CutPrefix(bytes.TrimSpace(address), []byte("unix://")); ok {
			out = append(out, string(at))
		}
	}
	return out
}

// networkResults are the CNI library's notes about our pods, found by the folder
// that the pods' network namespaces are in.
func (c *Cluster) networkResults() []string {
	all, _ := filepath.Glob("/var/lib/cni/results/*")
	return slices.DeleteFunc(all, func(file string) bool {
		b, err := os.ReadFile(file)
		return err != nil || !bytes.Contains(b, []byte(c.Dir+"/"))
	})
}

// logLinks are the links that the kubelet keeps for log collectors.
func (c *Cluster) logLinks() []string {
	all, _ := filepath.Glob("/var/log/containers/*")
	return slices.DeleteFunc(all, func(link string) bool {
		to, err := os.Readlink(link)
		return err != nil || !strings.HasPrefix(to, c.Dir+"/")
	})
}

func (c *Cluster) restoreSysctls() error {
	_, err := sysctls.Restore(c.journal.Sysctls)
	return err
}

// verify looks at the machine, not at what was done: what it finds is an error.
func (c *Cluster) verify(ctx context.Context) error {
	var left []string
	for _, p := range proc.Marked(c.marking()) {
		left = append(left, "process "+p.String())
	}
	mounts, err := machine.Mounts()
	if err != nil {
		return err
	}
	for _, m := range machine.MountsBelow(mounts, c.Dir) {
		left = append(left, "mount "+m)
	}
	for _, l := range c.journal.Links {
		if machine.LinkExists(l) {
			left = append(left, "network interface "+l)
		}
	}
	if len(c.journal.Tables) > 0 {
		tables, err := machine.Tables(ctx, c.journal.Tables)
		if err != nil {
			return err
		}
		for _, t := range tables {
			left = append(left, "nft table "+t)
		}
	}
	for _, g := range c.journal.Cgroups {
		if _, err := os.Stat(g); err == nil {
			left = append(left, "cgroup "+g)
		}
	}
	for _, s := range sysctls.Differing(c.journal.Sysctls) {
		left = append(left, "sysctl "+s)
	}
	if len(left) > 0 {
		return fmt.Errorf("left on the machine: %s", strings.Join(left, "; "))
	}
	return nil
}
