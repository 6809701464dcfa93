// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// serviceAccount is an identity without rights: no role is bound to it, and no
// token is mounted.
func serviceAccount(relay *v1alpha1.MoQRelay) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   objectMeta(relay, relay.Name),
		AutomountServiceAccountToken: new(false),
	}
}
