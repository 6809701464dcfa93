// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// Names that others rely on: containers, and the ports of a relay's pod.
const (
	// ContainerPreflight is the init container whose termination message is the
	// preflight report.
	ContainerPreflight = "preflight"
	// ContainerRelay is the relay.
	ContainerRelay = "relay"

	// ClientPort is where clients arrive in the pod, UDP and TCP.
	ClientPort = 4443
	// PeerPort is where the other pods arrive, UDP.
	PeerPort = 4444
	// StatusPort is where probes and the status document are, TCP.
	StatusPort = 9090

	portUDP    = "moq-udp"
	portTCP    = "moq-tcp"
	portPeers  = "moq-peers"
	portStatus = "status"
)

// Labels of every child. The first two select pods and never change.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelComponent = "app.kubernetes.io/component"

	// NameValue is the value of app.kubernetes.io/name on every child.
	NameValue = "moq-relay"
	// ManagedByValue is the value of app.kubernetes.io/managed-by on every child.
	ManagedByValue = "moq-relay-operator"
)

// SelectorLabels are the labels that select the pods of relay.
func SelectorLabels(relay *v1alpha1.MoQRelay) map[string]string {
	return map[string]string{labelName: NameValue, labelInstance: relay.Name}
}

// Labels are the labels of every child of relay.
func Labels(relay *v1alpha1.MoQRelay) map[string]string {
	labels := SelectorLabels(relay)
	labels[labelManagedBy] = ManagedByValue
	labels[labelComponent] = "relay"
	return labels
}

// ConfigMapPrefix is what the names of all immutable ConfigMaps of relay begin
// with, those of earlier specs included.
func ConfigMapPrefix(relay *v1alpha1.MoQRelay) string { return relay.Name + "-cfg-" }

// configMapName is the name of the immutable ConfigMap that holds file.
func configMapName(relay *v1alpha1.MoQRelay, file []byte) string {
	return ConfigMapPrefix(relay) + hash(file)[:8]
}

// liveConfigMapName is the name of the ConfigMap whose content changes.
func liveConfigMapName(relay *v1alpha1.MoQRelay) string { return relay.Name + "-live" }

// hash is the SHA-256 of a file's bytes in hex, as relays report it.
func hash(file []byte) string {
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// objectMeta is the metadata of a child: labels, and relay as its controller, so
// that it goes when relay goes.
func objectMeta(relay *v1alpha1.MoQRelay, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            name,
		Namespace:       relay.Namespace,
		Labels:          Labels(relay),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(relay, v1alpha1.GroupVersion.WithKind("MoQRelay"))},
	}
}

// merge returns the entries of both; those of ours win.
func merge(theirs, ours map[string]string) map[string]string {
	merged := maps.Clone(theirs)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, ours)
	return merged
}
