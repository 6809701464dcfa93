// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// minReadySeconds is how long a new pod must stay ready before the next old one
	// is told to drain.
	minReadySeconds = 10
	// revisionHistoryLimit is how many earlier templates can be rolled back to.
	revisionHistoryLimit = 3
)

// deployment makes the pods. New ones come first and old ones drain side by side,
// so capacity never falls below what was asked for.
func deployment(in podInput) *appsv1.Deployment {
	relay := in.relay
	replicas := relay.Spec.Replicas
	if replicas == nil {
		replicas = new(int32(1))
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(relay, relay.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas:             replicas,
			Selector:             &metav1.LabelSelector{MatchLabels: SelectorLabels(relay)},
			MinReadySeconds:      minReadySeconds,
			RevisionHistoryLimit: new(int32(revisionHistoryLimit)),
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge:       new(intstr.FromString("25%")),
					MaxUnavailable: new(intstr.FromInt32(0)),
				},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      merge(relay.Spec.Pod.Labels, Labels(relay)),
					Annotations: relay.Spec.Pod.Annotations,
				},
				Spec: podSpec(in),
			},
		},
	}
}
