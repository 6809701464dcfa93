// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// networkPolicy says who reaches the pods: everyone the client port, the relay's own
// pods the peer port, the operator and networkPolicy.metricsFrom the status port.
// Probes come from the pod's own node, which no policy keeps out. It is nil when it
// is switched off.
func networkPolicy(relay *v1alpha1.MoQRelay, operatorNamespace string) *networkingv1.NetworkPolicy {
	if relay.Spec.NetworkPolicy.State == v1alpha1.Disabled {
		return nil
	}
	own := metav1.LabelSelector{MatchLabels: SelectorLabels(relay)}
	rules := []networkingv1.NetworkPolicyIngressRule{
		{Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolUDP, ClientPort), policyPort(corev1.ProtocolTCP, ClientPort)}},
		// Also in mode Standalone: old pods of a mesh still serve each other while they drain.
		{
			Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolUDP, PeerPort)},
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: own.DeepCopy()}},
		},
	}
	if from := statusReaders(relay, operatorNamespace); len(from) > 0 { // an empty list would be everyone
		rules = append(rules, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, StatusPort)},
			From:  from,
		})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: objectMeta(relay, relay.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: own,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

// statusReaders are those who may reach the status port.
func statusReaders(relay *v1alpha1.MoQRelay, operatorNamespace string) []networkingv1.NetworkPolicyPeer {
	var from []networkingv1.NetworkPolicyPeer
	if operatorNamespace != "" {
		from = append(from, networkingv1.NetworkPolicyPeer{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: operatorNamespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{labelName: ManagedByValue}},
		})
	}
	return slices.Concat(from, relay.Spec.NetworkPolicy.DeepCopy().MetricsFrom)
}

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(port))}
}
