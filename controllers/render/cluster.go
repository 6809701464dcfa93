// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/config"
)

// Meshed says whether the pods of relay are joined. Relays know each other by the
// TLS key that all of them mount, so that self-signed ones, each with a key of its
// own, cannot be.
func Meshed(relay *v1alpha1.MoQRelay) bool {
	return relay.Spec.Cluster.Mode != v1alpha1.ClusterStandalone && relay.Spec.TLS.Mode != v1alpha1.TLSSelfSigned
}

// peersName is the name of the headless Service, and what pods ask DNS for.
func peersName(relay *v1alpha1.MoQRelay) string { return relay.Name + "-peers" }

// peersService lets the pods find each other; nil where they are not joined. A pod
// is in DNS as soon as it has an address, and until it is gone: relays that start
// or drain have sessions to pass on too.
func peersService(relay *v1alpha1.MoQRelay) *corev1.Service {
	if !Meshed(relay) {
		return nil
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(relay, peersName(relay)),
		Spec: corev1.ServiceSpec{
			Type:                     corev1.ServiceTypeClusterIP,
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 SelectorLabels(relay),
			IPFamilyPolicy:           new(corev1.IPFamilyPolicyPreferDualStack),
			Ports: []corev1.ServicePort{{
				Name: portPeers, Protocol: corev1.ProtocolUDP, Port: PeerPort, TargetPort: intstr.FromInt32(PeerPort),
			}},
		},
	}
}

// clusterConfig joins a pod to the others, and to relays elsewhere. Who a pod is
// comes from its environment, because all pods share this file.
func clusterConfig(relay *v1alpha1.MoQRelay) config.Cluster {
	var c config.Cluster
	if Meshed(relay) {
		c.Listen = fmt.Sprintf(":%d", PeerPort)
		c.Peers = []string{fmt.Sprintf("dns+https://%s.%s.svc:%d", peersName(relay), relay.Namespace, PeerPort)}
	}
	for _, u := range relay.Spec.Cluster.Upstreams {
		upstream := config.Upstream{URL: u.URL}
		if u.Cost != nil {
			upstream.Cost = new(int(*u.Cost))
		}
		c.Upstreams = append(c.Upstreams, upstream)
	}
	return c
}
