package controllers

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// loadBalancerPortsError is the Service condition with which a balancer refuses
// some of the ports.
const loadBalancerPortsError = "LoadBalancerPortsError"

// address judges whether clients have an address.
func address(o observation) verdict {
	kind := o.relay.Spec.Service.Type
	if kind == v1alpha1.ServiceNone || kind == v1alpha1.ServiceClusterIP {
		return isTrue(v1alpha1.ReasonNotRequested, "service.type is %s: no address outside the cluster is asked for", kind)
	}
	if o.service == nil {
		return isUnknown(v1alpha1.ReasonPending, "there is no Service yet")
	}
	if kind == v1alpha1.ServiceNodePort {
		return nodePortAddress(o)
	}
	return balancerAddress(o.service)
}

func nodePortAddress(o observation) verdict {
	port := servicePort(o.service).NodePort
	switch {
	case port == 0:
		return isUnknown(v1alpha1.ReasonPending, "no node port is assigned yet")
	case o.relay.Spec.Service.Hostname != "" || len(readyNodes(o.pods)) > 0:
		return isTrue(v1alpha1.ReasonAssigned, "node port %d, UDP and TCP", port)
	case o.replicas() == 0:
		return isUnknown(v1alpha1.ReasonPending, "node port %d has no pod behind it: spec.replicas is 0", port)
	default:
		return isFalse(v1alpha1.ReasonAddressPending, "node port %d has no ready pod behind it yet", port)
	}
}

func balancerAddress(s *corev1.Service) verdict {
	if text := portFault(s); text != "" {
		if strings.Contains(strings.ToLower(text), "mixed") {
			return isFalse(v1alpha1.ReasonMixedProtocolUnsupported, "the load balancer does not serve UDP and TCP on one Service (%s): use another balancer, or service.type NodePort", text)
		}
		return isFalse(v1alpha1.ReasonProviderError, "the load balancer reports: %s", text)
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if host := ingressHost(in); host != "" {
			return isTrue(v1alpha1.ReasonAssigned, "the load balancer gave %s", host)
		}
	}
	return isFalse(v1alpha1.ReasonAddressPending, "the load balancer has given no address yet; without one in this cluster, set service.type to NodePort")
}

// portFault is what the balancer says against a port of the Service, empty if nothing.
func portFault(s *corev1.Service) string {
	for _, in := range s.Status.LoadBalancer.Ingress {
		for _, port := range in.Ports {
			if port.Error != nil {
				return fmt.Sprintf("%s %d: %s", port.Protocol, port.Port, *port.Error)
			}
		}
	}
	for _, c := range s.Status.Conditions {
		if c.Type == loadBalancerPortsError && c.Status == trueStatus {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return ""
}

// ingressHost is a balancer's address, its name preferred.
func ingressHost(in corev1.LoadBalancerIngress) string {
	if in.Hostname != "" {
		return in.Hostname
	}
	return in.IP
}

// servicePort is the port that clients use; UDP and TCP have the same number.
func servicePort(s *corev1.Service) corev1.ServicePort {
	if len(s.Spec.Ports) == 0 {
		return corev1.ServicePort{}
	}
	return s.Spec.Ports[0]
}
