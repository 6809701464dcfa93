// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moqrelay/operator/api/v1alpha1"
)

const defaultServicePort = 443

// service is the clients' way in, nil with service.type None. UDP and TCP bear one
// number: a browser looks for the fingerprint, and for WebSocket when UDP is
// blocked, on the port that it was given.
func service(relay *v1alpha1.MoQRelay) *corev1.Service {
	spec := relay.Spec.Service
	if spec.Type == v1alpha1.ServiceNone {
		return nil
	}
	meta := objectMeta(relay, relay.Name)
	meta.Annotations = spec.Annotations
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type:           serviceType(spec.Type),
			Selector:       SelectorLabels(relay),
			IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
			Ports:          servicePorts(relay),
		},
	}
	if s.Spec.Type != corev1.ServiceTypeClusterIP {
		// Cluster would hide the client's address, on which limits.sessionsPerIP depends.
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	return s
}

func serviceType(t v1alpha1.ServiceType) corev1.ServiceType {
	if t == "" {
		return corev1.ServiceTypeLoadBalancer
	}
	return corev1.ServiceType(t)
}

func servicePorts(relay *v1alpha1.MoQRelay) []corev1.ServicePort {
	tcp := servicePort(relay, portTCP, corev1.ProtocolTCP)
	if !servesUDP(relay) {
		return []corev1.ServicePort{tcp}
	}
	return []corev1.ServicePort{servicePort(relay, portUDP, corev1.ProtocolUDP), tcp}
}

func servicePort(relay *v1alpha1.MoQRelay, name string, protocol corev1.Protocol) corev1.ServicePort {
	port := corev1.ServicePort{Name: name, Protocol: protocol, Port: defaultServicePort, TargetPort: intstr.FromString(name)}
	if p := relay.Spec.Service.Port; p != nil {
		port.Port = *p
	}
	if p := relay.Spec.Service.NodePort; p != nil {
		port.NodePort = *p
	}
	return port
}

// servesUDP says whether the relay opens its UDP port.
func servesUDP(relay *v1alpha1.MoQRelay) bool {
	return relay.Spec.Transports.QUIC.State != v1alpha1.Disabled
}
