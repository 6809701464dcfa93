// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// runDirSize bounds the pod's only writable folder, which is memory.
const runDirSize = 16 << 20

// mounts are what both containers read.
func mounts(relay *v1alpha1.MoQRelay) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: volumeConfig, MountPath: configDir, ReadOnly: true},
		{Name: volumeLive, MountPath: liveDir, ReadOnly: true},
	}
	for _, s := range secrets(relay) {
		mounts = append(mounts, corev1.VolumeMount{Name: s.volume, MountPath: path.Join(s.dir, s.name), ReadOnly: true})
	}
	return mounts
}

func volumes(in podInput) []corev1.Volume {
	list := []corev1.Volume{
		configMapVolume(volumeConfig, in.config),
		configMapVolume(volumeLive, liveConfigMapName(in.relay)),
		{Name: volumeRun, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium:    corev1.StorageMediumMemory,
			SizeLimit: resource.NewQuantity(runDirSize, resource.BinarySI),
		}}},
	}
	for _, s := range secrets(in.relay) {
		// Optional: a pod whose Secret does not exist yet starts, says so, and serves
		// as soon as the kubelet brings the files.
		list = append(list, corev1.Volume{Name: s.volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: s.name, Optional: new(true)},
		}})
	}
	if in.mode == v1alpha1.SocketBuffersRaiseNode {
		// The directory: a hostPath of a single file below it is resolved inside the pod.
		list = append(list, corev1.Volume{Name: volumeProc, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/proc", Type: new(corev1.HostPathDirectory)},
		}})
	}
	return list
}

func configMapVolume(name, configMap string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}},
	}}
}

// secret is a mounted Secret: its volume, the directory it is mounted below, and
// its name.
type secret struct{ volume, dir, name string }

// secrets are the Secrets that a pod mounts. Only the pod reads them.
func secrets(relay *v1alpha1.MoQRelay) []secret {
	spec := &relay.Spec
	all := []secret{
		{volumeTLS, tlsDir, spec.TLS.SecretName},
		{volumeKeys, keysDir, spec.Auth.KeysSecretName},
		{volumeClients, clientsDir, spec.Auth.ClientCASecretName},
	}
	return slices.DeleteFunc(all, func(s secret) bool { return s.name == "" })
}

// probe asks the status port every period seconds; failures in a row make it fail.
func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(portStatus)}},
		PeriodSeconds:    period,
		TimeoutSeconds:   5,
		FailureThreshold: failures,
	}
}
