// Hyperkube is every program of a one-node Kubernetes in one binary: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy
// and kubectl. Which one it is follows from the name it is called by
// (argv[0], so a symbolic link is enough), else from its first argument.
//
// One binary instead of seven because the linker takes most of its memory and
// time for code that all of them share: 160 MB and one link instead of 560 MB
// and seven.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	// A static binary on a machine without zone files still needs time zones
	// (CronJobs have one).
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps a name to what runs it; each returns the exit status.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kubectl":                 runKubectl,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(newKubelet()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := programs[name]; !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = filepath.Base(os.Args[0])
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "hyperkube: no program %q; call it as one of: %s\n", name, names())
		os.Exit(2)
	}
	os.Exit(run())
}

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

// runEtcd returns when etcd has stopped; etcd exits by itself on a failure.
func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

// runKubectl leaves the wording and the exit status of a failure to kubectl.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

func names() string {
	var all []string
	for name := range programs {
		all = append(all, name)
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
