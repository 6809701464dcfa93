package controllers

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *observation)
		want   []string
	}{
		{"node port: the nodes of ready pods, each once", nil, []string{
			"WebTransport https://192.0.2.1:30443", "WebTransport https://192.0.2.2:30443",
			"WebSocket https://192.0.2.1:30443", "WebSocket https://192.0.2.2:30443",
			"QUIC moqt://192.0.2.1:30443", "QUIC moqt://192.0.2.2:30443",
		}},
		{"self-signed: http", func(o *observation) {
			o.relay.Spec.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}
			onePod(o, newPod("demo-a", "n1"))
		}, []string{"WebTransport http://192.0.2.1:30443", "WebSocket http://192.0.2.1:30443", "QUIC moqt://192.0.2.1:30443"}},
		{"a host name", func(o *observation) { o.relay.Spec.Service.Hostname = "relay.example.test" }, []string{
			"WebTransport https://relay.example.test:30443", "WebSocket https://relay.example.test:30443", "QUIC moqt://relay.example.test:30443",
		}},
		{"no ready pod behind the node port", func(o *observation) { onePod(o, newStartingPod("demo-a", "n1")) }, nil},
		{"no node port yet", func(o *observation) {
			for i := range o.service.Spec.Ports {
				o.service.Spec.Ports[i].NodePort = 0
			}
		}, nil},
		{"balancer, both families", balancer(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}, {IP: "2001:db8::1"}}
		}), []string{
			"WebTransport https://198.51.100.1:443", "WebTransport https://[2001:db8::1]:443",
			"WebSocket https://198.51.100.1:443", "WebSocket https://[2001:db8::1]:443",
			"QUIC moqt://198.51.100.1:443", "QUIC moqt://[2001:db8::1]:443",
		}},
		{"balancer without an address, host name or not", func(o *observation) {
			balancer(func(*corev1.Service) {})(o)
			o.relay.Spec.Service.Hostname = "relay.example.test"
		}, nil},
		{"ClusterIP, without QUIC", func(o *observation) {
			o.relay.Spec.Service.Type = v1alpha1.ServiceClusterIP
			o.service.Spec.Type = corev1.ServiceTypeClusterIP
			o.relay.Spec.Transports.QUIC.State = v1alpha1.Disabled
		}, []string{"WebSocket https://10.96.0.7:443", "WebSocket https://[fd00::7]:443"}},
		{"None: the pods, without WebSocket and WebTransport", func(o *observation) {
			o.relay.Spec.Service.Type, o.service = v1alpha1.ServiceNone, nil
			o.relay.Spec.Transports.WebSocket.State = v1alpha1.Disabled
			o.relay.Spec.Transports.WebTransport.State = v1alpha1.Disabled
			onePod(o, newPod("demo-a", "n1"))
		}, []string{"QUIC moqt://10.1.0.1:4443"}},
		{"no Service", func(o *observation) { o.service = nil }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newObservation()
			if c.change != nil {
				c.change(&o)
			}
			var got []string
			for _, e := range endpoints(o) {
				got = append(got, fmt.Sprintf("%s %s", e.Transport, e.URL))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

func TestTwentyNodesGiveFifteenEndpoints(t *testing.T) {
	o := newObservation()
	var pods []corev1.Pod
	for i := range 20 {
		pods = append(pods, newPod(fmt.Sprintf("demo-%02d", i), fmt.Sprintf("n%d", i+1)))
	}
	o.pods = readPods(pods)
	if got := len(endpoints(o)); got != 15 {
		t.Errorf("got %d endpoints, want 5 places of 3 transports", got)
	}
}
