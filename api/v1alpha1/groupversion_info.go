// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of every type here, and the domain of our labels and
// annotations.
const Group = "moqrelay.io"

// Labels and annotations in our domain that have a meaning.
const (
	// LabelHostAccess on a namespace, with HostAccessAllowed as its value, is a
	// cluster admin's permission for MoQRelays there to touch their nodes
	// (socketBuffers.mode RaiseNode).
	LabelHostAccess = Group + "/host-access"
	// HostAccessAllowed is the one value of LabelHostAccess that allows.
	HostAccessAllowed = "allowed"
	// AnnotationPaused on a MoQRelay, with the value "true", keeps the operator from
	// changing its children. The status is still written.
	AnnotationPaused = Group + "/paused"
)

var (
	// GroupVersion is the group and version of the types here.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

	// SchemeBuilder registers the types here with a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types here to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MoQRelay{}, &MoQRelayList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
