package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// balancer makes the Service a LoadBalancer with the status said.
func balancer(change func(s *corev1.Service)) func(o *observation) {
	return func(o *observation) {
		o.relay.Spec.Service.Type = v1alpha1.ServiceLoadBalancer
		o.service.Spec.Type = corev1.ServiceTypeLoadBalancer
		change(o.service)
	}
}

func TestAddressReady(t *testing.T) {
	runConditionCases(t, address, []conditionCase{
		{name: "a node port with ready pods", status: trueStatus, reason: v1alpha1.ReasonAssigned, message: []string{"30443"}},
		{name: "a node port without ready pods", change: func(o *observation) {
			onePod(o, newStartingPod("demo-x", "n7"))
		}, status: falseStatus, reason: v1alpha1.ReasonAddressPending, message: []string{"no ready pod"}},
		{name: "a node port scaled to zero", change: func(o *observation) {
			o.relay.Spec.Replicas, o.pods = new(int32(0)), nil
		}, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "no Service yet", change: func(o *observation) { o.service = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "ClusterIP", change: func(o *observation) {
			o.relay.Spec.Service.Type = v1alpha1.ServiceClusterIP
		}, status: trueStatus, reason: v1alpha1.ReasonNotRequested},
		{name: "None", change: func(o *observation) {
			o.relay.Spec.Service.Type, o.service = v1alpha1.ServiceNone, nil
		}, status: trueStatus, reason: v1alpha1.ReasonNotRequested},
		{
			name: "the balancer is silent", change: balancer(func(*corev1.Service) {}),
			status: falseStatus, reason: v1alpha1.ReasonAddressPending, message: []string{"NodePort"},
		},
		{name: "the balancer gave a name", change: balancer(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.test", IP: "198.51.100.1"}}
		}), status: trueStatus, reason: v1alpha1.ReasonAssigned, message: []string{"lb.example.test"}},
		{name: "the balancer refuses mixed protocols on a port", change: balancer(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1", Ports: []corev1.PortStatus{
				{Port: 443, Protocol: corev1.ProtocolUDP, Error: new("MixedProtocolNotSupported")},
			}}}
		}), status: falseStatus, reason: v1alpha1.ReasonMixedProtocolUnsupported, message: []string{"UDP 443: MixedProtocolNotSupported"}},
		{name: "the balancer refuses mixed protocols by a condition", change: balancer(func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{Type: "LoadBalancerPortsError", Status: trueStatus, Reason: "LoadBalancerMixedProtocolNotSupported"}}
		}), status: falseStatus, reason: v1alpha1.ReasonMixedProtocolUnsupported},
		{name: "the balancer has another fault", change: balancer(func(s *corev1.Service) {
			s.Status.Conditions = []metav1.Condition{{Type: "LoadBalancerPortsError", Status: trueStatus, Reason: "QuotaReached", Message: "no addresses left"}}
		}), status: falseStatus, reason: v1alpha1.ReasonProviderError, message: []string{"QuotaReached: no addresses left"}},
	})
}
