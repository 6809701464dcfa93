package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/moqrelay/operator/relay/config"
)

// Resolver answers for a host's addresses, A and AAAA.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// systemResolver asks the system.
type systemResolver struct{}

func (systemResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}

// place is one entry of a list: a peers' name or an upstream.
type place struct {
	kind Kind
	url  *url.URL
	cost *int
}

// expands reports whether every address of the name is dialled.
func (p place) expands() bool { return strings.HasPrefix(p.url.Scheme, "dns+") }

// places are all entries of all lists. Texts were checked by package config.
func (c *Cluster) places() (out []place) {
	for _, text := range c.cfg.Peers {
		if u, err := url.Parse(text); err == nil {
			out = append(out, place{kind: Peer, url: u})
		}
	}
	c.mu.Lock()
	upstreams := slices.Concat(c.static, c.more)
	c.mu.Unlock()
	for _, up := range upstreams {
		if u, err := url.Parse(up.URL); err == nil {
			out = append(out, place{kind: Upstream, url: u, cost: up.Cost})
		}
	}
	return out
}

// resolve asks for the addresses of every name. An error and an empty answer leave
// what was known: a name server that fails must not take a mesh apart.
func (c *Cluster) resolve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, host := range c.names() {
		asking.Go(func() {
			found, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host)
			if err == nil && len(found) == 0 {
				err = errors.New("the answer has no address")
			}
			c.answered(host, found, err)
		})
	}
	asking.Wait()
}

// names are the hosts whose addresses count.
func (c *Cluster) names() (hosts []string) {
	for _, p := range c.places() {
		if p.expands() {
			hosts = append(hosts, p.url.Hostname())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (c *Cluster) answered(host string, found []netip.Addr, err error) {
	if err != nil {
		c.log.Debug("no addresses for a name; those that were known stay", "host", host, "error", err)
		return
	}
	addresses := make([]string, len(found))
	for i, a := range found {
		addresses[i] = a.Unmap().String()
	}
	slices.Sort(addresses)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[host] = slices.Compact(addresses)
}

// upstreamsFile is the file of upstreams as it was last read.
type upstreamsFile struct {
	path, text, fault string
}

// readFile takes over a changed file of upstreams. A bad one, and one that is gone,
// leaves the last good list.
func (c *Cluster) readFile() {
	f := &c.file
	if f.path == "" {
		return
	}
	data, err := os.ReadFile(f.path)
	if err == nil && string(data) == f.text {
		return
	}
	var list []config.Upstream
	if err == nil {
		list, err = config.ParseUpstreams(data)
	}
	if err != nil {
		if f.fault != err.Error() {
			f.fault = err.Error()
			c.log.Error("cannot use cluster.upstreamsFile; the last good list stays, correct the file", "file", f.path, "error", err)
		}
		return
	}
	f.text, f.fault = string(data), ""
	c.mu.Lock()
	c.more = list
	c.mu.Unlock()
	c.log.Info("cluster.upstreamsFile read", "file", f.path, "upstreams", fmt.Sprint(len(list)))
}

// bare is a URL without its query, which may hold a token.
func bare(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url
}
