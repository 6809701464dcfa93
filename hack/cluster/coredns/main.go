// Coredns is the cluster's DNS server: CoreDNS with the few plugins that a cluster
// without a way out needs. It is a program of its own, because CoreDNS defines
// flags for the whole process, which would become flags of kubectl.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
