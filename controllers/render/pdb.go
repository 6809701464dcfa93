// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// disruptionBudget lets one pod at a time be evicted, a broken one always: a
// minimum instead would block a node's drain for ever with one replica.
func disruptionBudget(relay *v1alpha1.MoQRelay) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: objectMeta(relay, relay.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: SelectorLabels(relay)},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}
