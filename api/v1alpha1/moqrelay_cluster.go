// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	networkingv1 "k8s.io/api/networking/v1"
)

// ClusterMode says whether the pods of a MoQRelay are one relay or several.
//
// +kubebuilder:validation:Enum=Mesh;Standalone
type ClusterMode string

// The values of ClusterMode.
const (
	// ClusterMesh joins all pods: a viewer on any of them sees a publisher on any other.
	ClusterMesh ClusterMode = "Mesh"
	// ClusterStandalone leaves every pod by itself.
	ClusterStandalone ClusterMode = "Standalone"
)

// ClusterSpec says which other relays a pod is joined to.
type ClusterSpec struct {
	// mode is Mesh (default) or Standalone. Mesh: the pods find each other by the
	// headless Service NAME-peers and pass broadcasts on over UDP port 4444, so that a
	// viewer on any pod sees a publisher on any other. They know each other by the key of
	// tls.secretName, so that tls.mode SelfSigned, where every pod makes a key of its
	// own, is Standalone whatever is said here. Standalone: a viewer sees only what is
	// published to the pod that it reaches. Change: rolling.
	// +optional
	// +kubebuilder:default=Mesh
	Mode ClusterMode `json:"mode,omitempty"`

	// upstreams are relays elsewhere, an origin or other regions, at most 16, to which
	// every pod connects as a client, and whose broadcasts it passes on. Change: live.
	// +optional
	// +listType=map
	// +listMapKey=url
	// +kubebuilder:validation:MaxItems=16
	Upstreams []UpstreamSpec `json:"upstreams,omitempty"`
}

// UpstreamSpec is a relay elsewhere.
type UpstreamSpec struct {
	// url is https://HOST:PORT of the other relay's client port, at most 2048
	// characters, with a path and a token where it asks for them
	// (https://origin.example.com:443/live?jwt=…). Its certificate must be one that the
	// system's authorities signed. Whoever may read this object reads the token:
	// give it no more than it needs.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):[1-9][0-9]{0,4}(/[^?#,\s]*)?(\?[^#,\s]*)?$`
	URL string `json:"url"`

	// cost is the price of the link to it, 0 to 65535: of two ways to a broadcast the
	// cheaper one is taken. Unset: what the other relay says, else 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Cost *int32 `json:"cost,omitempty"`
}

// NetworkPolicySpec is the NetworkPolicy of the relay pods. What goes out of them
// is never restricted.
type NetworkPolicySpec struct {
	// state is Enabled or Disabled; default Enabled. Enabled: everyone reaches the
	// client port 4443 (UDP and TCP), pods of the same MoQRelay the peer port 4444
	// (UDP), the operator and metricsFrom the status port 9090 (TCP). Disabled: no
	// NetworkPolicy is made. No pod restarts. Change: service.
	// +optional
	// +kubebuilder:default=Enabled
	State State `json:"state,omitempty"`

	// metricsFrom are those who may reach the status port besides the operator, at most
	// 16, in the form of a NetworkPolicy: namespaceSelector and podSelector, or ipBlock.
	// Change: service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each of networkPolicy.metricsFrom must have either ipBlock, or one or both of namespaceSelector and podSelector"
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
}

// PeersStatus says how many of the other pods one pod has a session with.
type PeersStatus struct {
	// pod is its name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// expected is how many other relays it should have a session with: the addresses
	// that the names of its peers have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Expected int32 `json:"expected"`

	// connected is how many of them it has one with.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Connected int32 `json:"connected"`
}
