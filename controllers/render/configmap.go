// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// immutableConfigMap holds the keys that need a restart. Its name follows its
// content, so a change makes a new one, and with it new pods; an old pod keeps its
// own, also through a rollback.
func immutableConfigMap(relay *v1alpha1.MoQRelay, file []byte) *corev1.ConfigMap {
	cm := configMap(relay, configMapName(relay, file), configFile, file)
	cm.Immutable = new(true)
	return cm
}

// liveConfigMap holds the keys that a running relay reloads when they change.
func liveConfigMap(relay *v1alpha1.MoQRelay, file []byte) *corev1.ConfigMap {
	return configMap(relay, liveConfigMapName(relay), liveFile, file)
}

func configMap(relay *v1alpha1.MoQRelay, name, key string, file []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(relay, name),
		Data:       map[string]string{key: string(file)},
	}
}
