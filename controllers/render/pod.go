// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
)

const (
	// defaultDrainSeconds is the relay's drain.timeoutSeconds when the spec has none.
	defaultDrainSeconds = 300
	// graceMarginSeconds is what a pod gets beyond its drain to close and exit.
	graceMarginSeconds = 15

	volumeConfig  = "config"
	volumeLive    = "live"
	volumeTLS     = "tls"
	volumeKeys    = "keys"
	volumeClients = "clients"
	volumeRun     = "run"
	volumeProc    = "host-proc"

	hostProcDir = "/host/proc"
)

// podInput is what a pod is made of besides the relay's own spec.
type podInput struct {
	relay         *v1alpha1.MoQRelay
	image         string
	mode          v1alpha1.SocketBuffersMode
	config        string // name of the immutable ConfigMap
	maxNodeBuffer int64
}

// podSpec is a relay's pod. Only the preflight container of mode RaiseNode is not
// fit for the restricted Pod Security level.
func podSpec(in podInput) corev1.PodSpec {
	spec := &in.relay.Spec
	return corev1.PodSpec{
		ServiceAccountName:            in.relay.Name,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(gracePeriod(spec.Drain)),
		ImagePullSecrets:              spec.ImagePullSecrets,
		NodeSelector:                  spec.Pod.NodeSelector,
		Tolerations:                   spec.Pod.Tolerations,
		TopologySpreadConstraints:     spread(in.relay),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		InitContainers: []corev1.Container{preflightContainer(in)},
		Containers:     []corev1.Container{relayContainer(in)},
		Volumes:        volumes(in),
	}
}

// ModeOf tells the socket buffers' mode of a pod that was rendered here.
func ModeOf(pod *corev1.PodSpec) v1alpha1.SocketBuffersMode {
	for i := range pod.Volumes {
		if pod.Volumes[i].Name == volumeProc {
			return v1alpha1.SocketBuffersRaiseNode
		}
	}
	return v1alpha1.SocketBuffersVerify
}

func gracePeriod(drain v1alpha1.DrainSpec) int64 {
	seconds := int64(defaultDrainSeconds)
	if drain.TimeoutSeconds != nil {
		seconds = int64(*drain.TimeoutSeconds)
	}
	return seconds + graceMarginSeconds
}

// spread keeps pods of one template apart by zone and by node, as far as possible.
func spread(relay *v1alpha1.MoQRelay) []corev1.TopologySpreadConstraint {
	var constraints []corev1.TopologySpreadConstraint
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelHostname} {
		constraints = append(constraints, corev1.TopologySpreadConstraint{
			MaxSkew:           1,
			TopologyKey:       key,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: SelectorLabels(relay)},
			MatchLabelKeys:    []string{"pod-template-hash"},
		})
	}
	return constraints
}

// preflightContainer checks the machine before the relay starts, and in mode
// RaiseNode raises the node's socket buffer limits. Its termination message is
// the preflight report, from the file alone: logs are not a report.
func preflightContainer(in podInput) corev1.Container {
	c := container(in, ContainerPreflight, "preflight")
	c.Env = []corev1.EnvVar{fromField("NODE_NAME", "spec.nodeName")}
	c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	if in.maxNodeBuffer > 0 {
		c.Args = append(c.Args, "--max-node-buffer", strconv.FormatInt(in.maxNodeBuffer, 10))
	}
	if in.mode == v1alpha1.SocketBuffersRaiseNode {
		c.SecurityContext = raiseSecurity()
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeProc, MountPath: hostProcDir, ReadOnly: true})
	}
	return c
}

// relayContainer is the relay. What it says on exit is a report too; when it could
// not write one, the end of its log is better than nothing for a person.
func relayContainer(in podInput) corev1.Container {
	c := container(in, ContainerRelay, "serve")
	c.Env = environment(in.relay)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeRun, MountPath: runDir})
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	c.Ports = containerPorts(in.relay)
	c.StartupProbe = probe("/livez", 1, 60)
	c.ReadinessProbe = probe("/readyz", 5, 3)
	c.LivenessProbe = probe("/livez", 10, 3)
	return c
}

// container is what both containers share.
func container(in podInput, name, command string) corev1.Container {
	return corev1.Container{
		Name:            name,
		Image:           in.image,
		ImagePullPolicy: in.relay.Spec.ImagePullPolicy,
		Args: []string{
			command,
			"--config", path.Join(configDir, configFile),
			"--live-config", path.Join(liveDir, liveFile),
			"--termination-log", corev1.TerminationMessagePathDefault,
		},
		Resources: corev1.ResourceRequirements{
			Requests: in.relay.Spec.Resources.Requests,
			Limits:   in.relay.Spec.Resources.Limits,
		},
		VolumeMounts:    mounts(in.relay),
		SecurityContext: restrictedSecurity(),
	}
}

// restrictedSecurity passes the restricted Pod Security level. The user is the
// image's own, which is not root.
func restrictedSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		Privileged:               new(false),
		ReadOnlyRootFilesystem:   new(true),
		RunAsNonRoot:             new(true),
	}
}

// raiseSecurity is what writing the node's sysctls takes. A privileged container
// of another user than root has no effective capability.
func raiseSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		Privileged:             new(true),
		ReadOnlyRootFilesystem: new(true),
		RunAsNonRoot:           new(false),
		RunAsUser:              new(int64(0)),
	}
}

// environment tells a relay who it is, and the Go runtime how much memory to stay
// under: 90 % of the limit, so that the garbage collector works before the kernel kills.
func environment(relay *v1alpha1.MoQRelay) []corev1.EnvVar {
	env := []corev1.EnvVar{
		fromField("POD_NAME", "metadata.name"),
		fromField("POD_UID", "metadata.uid"),
		fromField("POD_IPS", "status.podIPs"),
		fromField("NODE_NAME", "spec.nodeName"),
		fromField("MOQ_CLUSTER_NODE", "metadata.uid"),
	}
	if limit := relay.Spec.Resources.Limits.Memory(); !limit.IsZero() {
		env = append(env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: goMemoryLimit(limit)})
	}
	return env
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

// goMemoryLimit is 90 % of limit in bytes, computed so that no limit overflows.
func goMemoryLimit(limit *resource.Quantity) string {
	bytes := limit.Value()
	return strconv.FormatInt(bytes-bytes/10, 10)
}

func containerPorts(relay *v1alpha1.MoQRelay) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	if servesUDP(relay) {
		ports = append(ports, corev1.ContainerPort{Name: portUDP, ContainerPort: ClientPort, Protocol: corev1.ProtocolUDP})
	}
	if Meshed(relay) {
		ports = append(ports, corev1.ContainerPort{Name: portPeers, ContainerPort: PeerPort, Protocol: corev1.ProtocolUDP})
	}
	return append(ports,
		corev1.ContainerPort{Name: portTCP, ContainerPort: ClientPort, Protocol: corev1.ProtocolTCP},
		corev1.ContainerPort{Name: portStatus, ContainerPort: StatusPort, Protocol: corev1.ProtocolTCP})
}
