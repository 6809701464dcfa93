package controllers

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
)

// maxEndpoints bounds status.endpoints.
const maxEndpoints = 16

// A hostPort is one place where clients reach the relay.
type hostPort struct {
	host string
	port int32
}

// endpoints are the addresses to paste into a client: every transport that is
// enabled, at every place, the places of one transport together.
func endpoints(o observation) []v1alpha1.Endpoint {
	places := places(o)
	web := "https"
	if o.selfSigned() {
		web = "http" // such clients fetch the fingerprint over plain HTTP first
	}
	var list []v1alpha1.Endpoint
	add := func(transport v1alpha1.EndpointTransport, scheme string) {
		for _, p := range places {
			url := scheme + "://" + net.JoinHostPort(p.host, strconv.Itoa(int(p.port)))
			list = append(list, v1alpha1.Endpoint{Transport: transport, URL: url})
		}
	}
	t := o.relay.Spec.Transports
	quic := t.QUIC.State != v1alpha1.Disabled
	if quic && t.WebTransport.State != v1alpha1.Disabled {
		add(v1alpha1.EndpointWebTransport, web)
	}
	if t.WebSocket.State != v1alpha1.Disabled {
		add(v1alpha1.EndpointWebSocket, web)
	}
	if quic {
		add(v1alpha1.EndpointQUIC, "moqt")
	}
	return list[:min(len(list), maxEndpoints)]
}

// places are where clients reach the relay, by the kind of its Service. At most
// five, so that three transports fit into the status.
func places(o observation) []hostPort {
	list := allPlaces(o)
	if name := o.relay.Spec.Service.Hostname; name != "" && len(list) > 0 {
		return []hostPort{{name, list[0].port}}
	}
	return list[:min(len(list), maxEndpoints/3)]
}

func allPlaces(o observation) []hostPort {
	if o.relay.Spec.Service.Type == v1alpha1.ServiceNone {
		return podPlaces(o.pods)
	}
	if o.service == nil {
		return nil
	}
	port := servicePort(o.service)
	switch o.service.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return nodePlaces(o, port.NodePort)
	case corev1.ServiceTypeLoadBalancer:
		var list []hostPort
		for _, in := range o.service.Status.LoadBalancer.Ingress {
			if host := ingressHost(in); host != "" {
				list = append(list, hostPort{host, port.Port})
			}
		}
		return list
	default:
		return servicePlaces(o.service, port.Port)
	}
}

// nodePlaces are the nodes of ready pods. A pod may be reached through any node,
// but only those are known without access to Node objects.
func nodePlaces(o observation, port int32) []hostPort {
	if port == 0 {
		return nil
	}
	nodes := readyNodes(o.pods)
	if len(nodes) == 0 && o.relay.Spec.Service.Hostname != "" {
		return []hostPort{{o.relay.Spec.Service.Hostname, port}}
	}
	list := make([]hostPort, len(nodes))
	for i, ip := range nodes {
		list[i] = hostPort{ip, port}
	}
	return list
}

func podPlaces(pods []pod) []hostPort {
	var list []hostPort
	for _, p := range pods {
		if p.ready() && !p.draining() && p.Status.PodIP != "" {
			list = append(list, hostPort{p.Status.PodIP, render.ClientPort})
		}
	}
	return sortedPlaces(list)
}

func servicePlaces(s *corev1.Service, port int32) []hostPort {
	var list []hostPort
	for _, ip := range s.Spec.ClusterIPs {
		if ip != "" && ip != corev1.ClusterIPNone {
			list = append(list, hostPort{ip, port})
		}
	}
	return list
}

// readyNodes are the addresses of the nodes with ready pods, sorted, each once.
func readyNodes(pods []pod) []string {
	var list []string
	for _, p := range pods {
		if p.ready() && !p.draining() && p.Status.HostIP != "" {
			list = append(list, p.Status.HostIP)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func sortedPlaces(list []hostPort) []hostPort {
	slices.SortFunc(list, func(a, b hostPort) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
	})
	return list
}
