package controllers

import (
	"context"
	"net"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/controllers/render"
)

const (
	statusPort = render.StatusPort
	peerPort   = render.PeerPort

	// changesWaiting is how many relays whose pods said something new may wait for a
	// pass; further ones hold their worker up.
	changesWaiting = 1024
)

// A collection is the collector, and the way from it to passes.
type collection struct {
	collector *health.Collector
	changes   chan event.GenericEvent
}

// newCollection makes the collector of c, whose Changed is replaced.
func newCollection(c health.Config) *collection {
	changes := make(chan event.GenericEvent, changesWaiting)
	c.Changed = func(ctx context.Context, owner health.Owner) {
		relay := &v1alpha1.MoQRelay{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
		select {
		case changes <- event.GenericEvent{Object: relay}:
		case <-ctx.Done():
		}
	}
	return &collection{health.New(c), changes}
}

// source is where changes come from, for a controller.
func (c *collection) source() source.Source {
	return source.Channel(c.changes, &handler.EnqueueRequestForObject{})
}

// Start asks pods until ctx is done; a manager calls it on the operator that leads.
func (c *collection) Start(ctx context.Context) error { return c.collector.Run(ctx) }

// collect has the relay's pods asked from now on, and puts what they said into
// them. Without a collector, no pod is ever asked.
func (r *Reconciler) collect(relay *v1alpha1.MoQRelay, pods []pod) {
	if r.collection == nil {
		return
	}
	owner := health.Owner(nameOf(relay))
	readings := r.collection.collector.Read(owner)
	r.collection.collector.Track(owner, targets(relay, asked(pods), readings))
	for i := range pods {
		pods[i].reading = readings[string(pods[i].UID)]
	}
}

// targets are the pods to ask. A pod has others to know when it says that it works
// by the configuration of a mesh: one from before a change of cluster.mode does not.
func targets(relay *v1alpha1.MoQRelay, ready []pod, readings map[string]health.Reading) []health.Pod {
	list := make([]health.Pod, len(ready))
	for i, p := range ready {
		list[i] = health.Pod{UID: string(p.UID), Address: p.addresses(statusPort)[0]}
		if hash := readings[string(p.UID)].ConfigHash; render.Meshed(relay) && hash != "" && hash == relay.Status.ConfigHash {
			list[i].Others = len(ready) - 1
		}
	}
	return list
}

// uncollect ends the asking of a relay that is gone.
func (r *Reconciler) uncollect(relay types.NamespacedName) {
	if r.collection != nil {
		r.collection.collector.Track(health.Owner(relay), nil)
	}
}

// addresses are the pod's addresses with a port, the first one preferred.
func (p pod) addresses(port int) []string {
	list := []string{net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port))}
	for _, ip := range p.Status.PodIPs {
		if ip.IP != p.Status.PodIP {
			list = append(list, net.JoinHostPort(ip.IP, strconv.Itoa(port)))
		}
	}
	return list
}
