// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// Options are what rendering needs besides the MoQRelay.
type Options struct {
	// RelayImage is the image of relays whose spec names none.
	RelayImage string
	// HostAccess says that pods of the MoQRelay's namespace may touch their nodes.
	HostAccess bool
	// AutoMode is what socketBuffers.mode Auto stands for, RaiseNode or Verify; for a
	// caller that keeps an earlier choice. Empty: RaiseNode with HostAccess while there
	// is a UDP socket, else Verify.
	AutoMode v1alpha1.SocketBuffersMode
	// MaxNodeBuffer is the most, in bytes, to which preflight may raise a node's
	// socket buffer limits. 0: preflight's own default.
	MaxNodeBuffer int64
	// OperatorNamespace is where the operator's own pods are, which a NetworkPolicy lets
	// reach the status port. Empty: the operator is no pod, and none is let in for it.
	OperatorNamespace string
}

// Objects are the children of a MoQRelay, and what was decided on the way.
type Objects struct {
	ServiceAccount *corev1.ServiceAccount
	// LiveConfig holds the keys that running relays reload.
	LiveConfig *corev1.ConfigMap
	// Config is immutable and holds all other keys; its name follows its content.
	Config *corev1.ConfigMap
	// NetworkPolicy is nil with networkPolicy.state Disabled.
	NetworkPolicy *networkingv1.NetworkPolicy
	// PeersService is nil where pods are not joined to a mesh.
	PeersService *corev1.Service
	// Service is nil with service.type None.
	Service             *corev1.Service
	PodDisruptionBudget *policyv1.PodDisruptionBudget
	Deployment          *appsv1.Deployment

	// Image is the relay image after defaulting.
	Image string
	// SocketBuffersMode is RaiseNode or Verify, never Auto.
	SocketBuffersMode v1alpha1.SocketBuffersMode
	// ConfigHash and LiveConfigHash are the SHA-256 of the two files' bytes, in hex,
	// as relays report them.
	ConfigHash, LiveConfigHash string
}

// InvalidSpecError says that a spec cannot be rendered, although the API server
// took it. Only a change of the spec helps.
type InvalidSpecError struct {
	// Err names the fields and what is wrong with them.
	Err error
}

// Error returns what is wrong.
func (e *InvalidSpecError) Error() string { return "spec: " + e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidSpecError) Unwrap() error { return e.Err }

// HostAccessError says that a MoQRelay asks for its nodes in a namespace that may
// not touch them. A cluster admin's label on the namespace helps, or another mode.
type HostAccessError struct {
	// Namespace is the one without the label.
	Namespace string
}

// Error names the field, the namespace and the label.
func (e *HostAccessError) Error() string {
	return fmt.Sprintf("socketBuffers.mode RaiseNode needs the label %s=%s on namespace %q, which a cluster admin sets; or use Auto or Verify",
		v1alpha1.LabelHostAccess, v1alpha1.HostAccessAllowed, e.Namespace)
}

// Render returns the children of relay. The error is a *InvalidSpecError or a
// *HostAccessError.
func Render(relay *v1alpha1.MoQRelay, opts Options) (*Objects, error) {
	mode, err := socketBuffersMode(relay, opts)
	if err != nil {
		return nil, err
	}
	image := relay.Spec.Image
	if image == "" {
		image = opts.RelayImage
	}
	if image == "" {
		return nil, &InvalidSpecError{fmt.Errorf("image: is required, because the operator was started without a relay image")}
	}
	files, err := renderFiles(relay, mode)
	if err != nil {
		return nil, &InvalidSpecError{err}
	}
	pod := podInput{relay: relay, image: image, mode: mode, config: configMapName(relay, files.config), maxNodeBuffer: opts.MaxNodeBuffer}
	return &Objects{
		ServiceAccount:      serviceAccount(relay),
		LiveConfig:          liveConfigMap(relay, files.live),
		Config:              immutableConfigMap(relay, files.config),
		NetworkPolicy:       networkPolicy(relay, opts.OperatorNamespace),
		PeersService:        peersService(relay),
		Service:             service(relay),
		PodDisruptionBudget: disruptionBudget(relay),
		Deployment:          deployment(pod),
		Image:               image,
		SocketBuffersMode:   mode,
		ConfigHash:          hash(files.config),
		LiveConfigHash:      hash(files.live),
	}, nil
}

// socketBuffersMode resolves Auto, and refuses what the namespace may not do.
func socketBuffersMode(relay *v1alpha1.MoQRelay, opts Options) (v1alpha1.SocketBuffersMode, error) {
	mode := relay.Spec.SocketBuffers.Mode
	if mode == "" || mode == v1alpha1.SocketBuffersAuto {
		mode = opts.AutoMode
	}
	if mode == "" {
		mode = v1alpha1.SocketBuffersVerify
		if opts.HostAccess && servesUDP(relay) {
			mode = v1alpha1.SocketBuffersRaiseNode
		}
	}
	if mode == v1alpha1.SocketBuffersRaiseNode && !opts.HostAccess {
		return "", &HostAccessError{Namespace: relay.Namespace}
	}
	return mode, nil
}

// Intents returns the objects as they are applied, in the order in which they are
// applied: what a pod needs comes before the Deployment that makes pods. Status
// and the empty fields that the Go types cannot leave out are not in them.
func (o *Objects) Intents() ([]*unstructured.Unstructured, error) {
	objects := []runtime.Object{o.ServiceAccount, o.LiveConfig, o.Config}
	if o.NetworkPolicy != nil {
		objects = append(objects, o.NetworkPolicy)
	}
	if o.PeersService != nil {
		objects = append(objects, o.PeersService)
	}
	if o.Service != nil {
		objects = append(objects, o.Service)
	}
	objects = append(objects, o.PodDisruptionBudget, o.Deployment)
	intents := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("convert %T: %w", object, err)
		}
		delete(content, "status")
		prune(content)
		intents[i] = &unstructured.Unstructured{Object: content}
	}
	return intents, nil
}

// prune removes null and empty maps, which in an apply request would claim fields
// that nobody asked for. An emptyDir is never empty here.
func prune(value map[string]any) {
	for key, field := range value {
		switch field := field.(type) {
		case nil:
			delete(value, key)
		case map[string]any:
			prune(field)
			if len(field) == 0 {
				delete(value, key)
			}
		case []any:
			pruneItems(field)
		}
	}
}

func pruneItems(items []any) {
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			prune(item)
		}
	}
}
