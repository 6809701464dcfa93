// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"

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
	if secret := tlsSecret(relay); secret != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeTLS, MountPath: path.Join(tlsDir, secret), ReadOnly: true})
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
	if secret := tlsSecret(in.relay); secret != "" {
		// Optional: a pod whose Secret does not exist yet starts, says so in its
		// preflight report, and serves as soon as the kubelet brings the files.
		list = append(list, corev1.Volume{Name: volumeTLS, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
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

// tlsSecret is the name of the mounted Secret, empty when the relay signs its own
// certificate.
func tlsSecret(relay *v1alpha1.MoQRelay) string {
	if relay.Spec.TLS.Mode == v1alpha1.TLSSelfSigned {
		return ""
	}
	return relay.Spec.TLS.SecretName
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
