// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	psaapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/moqrelay/operator/api/v1alpha1"
)

// faults are what the upstream Pod Security evaluator forbids at a level.
func faults(t *testing.T, template corev1.PodTemplateSpec, level psaapi.Level) []string {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	results := evaluator.EvaluatePod(psaapi.LevelVersion{Level: level, Version: psaapi.LatestVersion()}, &template.ObjectMeta, &template.Spec)
	var reasons []string
	for _, result := range results {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason)
		}
	}
	return reasons
}

func TestAVerifyPodPassesTheRestrictedLevel(t *testing.T) {
	for _, s := range samples(t) {
		objects := mustRender(t, s.relay, options(s.hostAccess))
		if objects.SocketBuffersMode != v1alpha1.SocketBuffersVerify {
			continue
		}
		if got := faults(t, objects.Deployment.Spec.Template, psaapi.LevelRestricted); len(got) > 0 {
			t.Errorf("%s: the restricted level forbids %v", s.name, got)
		}
	}
}

func TestARaiseNodePodNeedsThePrivilegedLevelForItsPreflightAlone(t *testing.T) {
	seen := 0
	for _, s := range samples(t) {
		objects := mustRender(t, s.relay, options(s.hostAccess))
		if objects.SocketBuffersMode != v1alpha1.SocketBuffersRaiseNode {
			continue
		}
		seen++
		template := objects.Deployment.Spec.Template.DeepCopy()
		if got, want := faults(t, *template, psaapi.LevelBaseline), []string{"hostPath volumes", "privileged"}; !slices.Equal(sorted(got), want) {
			t.Errorf("%s: the baseline level forbids %q, want %q", s.name, got, want)
		}
		// What is left without that container and its volume is fit for restricted.
		template.Spec.InitContainers = nil
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
		if got := faults(t, *template, psaapi.LevelRestricted); len(got) > 0 {
			t.Errorf("%s: without preflight the restricted level forbids %v", s.name, got)
		}
	}
	if seen != 4 {
		t.Errorf("%d samples use RaiseNode, want 4", seen)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestPodsHoldOneImageNoSysctlNoHostNamespaceAndNoMountedFile(t *testing.T) {
	for _, s := range samples(t) {
		objects := mustRender(t, s.relay, options(s.hostAccess))
		pod := objects.Deployment.Spec.Template.Spec
		if len(pod.SecurityContext.Sysctls) > 0 || pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Errorf("%s: the pod takes from the host", s.name)
		}
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			if c.Image != objects.Image {
				t.Errorf("%s: container %s has image %q, want %q", s.name, c.Name, c.Image, objects.Image)
			}
			for _, m := range c.VolumeMounts {
				if m.SubPath != "" || m.SubPathExpr != "" {
					t.Errorf("%s: %s mounts the single file %s, which is never updated", s.name, c.Name, m.MountPath)
				}
			}
		}
	}
}

func TestRaiseNodeGivesRootAndTheNodesProcToPreflightAndNothingToTheRelay(t *testing.T) {
	relay := minimal()
	relay.Spec.SocketBuffers.Mode = v1alpha1.SocketBuffersRaiseNode
	pod := mustRender(t, relay, options(true)).Deployment.Spec.Template.Spec
	preflight, main := pod.InitContainers[0], pod.Containers[0]

	if s := preflight.SecurityContext; !*s.Privileged || *s.RunAsUser != 0 || *s.RunAsNonRoot {
		t.Errorf("preflight is not a privileged container of user 0: %+v", s)
	}
	proc := preflight.VolumeMounts[len(preflight.VolumeMounts)-1]
	if proc.MountPath != "/host/proc" || !proc.ReadOnly {
		t.Errorf("preflight mounts %+v, want /host/proc read-only", proc)
	}
	if s := main.SecurityContext; *s.Privileged || s.RunAsUser != nil || !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation {
		t.Errorf("the relay container is not restricted: %+v", s)
	}
	for _, m := range main.VolumeMounts {
		if strings.HasPrefix(m.MountPath, "/host") {
			t.Errorf("the relay container mounts %s", m.MountPath)
		}
	}
}

func TestTheMemoryLimitGivesTheGoRuntimeNinetyPercent(t *testing.T) {
	for limit, want := range map[string]string{"1000": "900", "1Gi": "966367642", "": ""} {
		relay := minimal()
		if limit != "" {
			relay.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
		}
		got := ""
		for _, env := range mustRender(t, relay, options(false)).Deployment.Spec.Template.Spec.Containers[0].Env {
			if env.Name == "GOMEMLIMIT" {
				got = env.Value
			}
		}
		if got != want {
			t.Errorf("memory limit %q gives GOMEMLIMIT %q, want %q", limit, got, want)
		}
	}
}

func TestTheGracePeriodIsTheDrainPlusFifteenSeconds(t *testing.T) {
	for drain, want := range map[int32]int64{0: 15, 5: 20, 86400: 86415} {
		relay := minimal()
		relay.Spec.Drain.TimeoutSeconds = &drain
		got := *mustRender(t, relay, options(false)).Deployment.Spec.Template.Spec.TerminationGracePeriodSeconds
		if got != want {
			t.Errorf("drain.timeoutSeconds %d gives a grace period of %d, want %d", drain, got, want)
		}
	}
}

func TestTheCertificateIsAnOptionalDirectoryNamedAfterItsSecret(t *testing.T) {
	objects := mustRender(t, minimal(), options(false))
	pod := objects.Deployment.Spec.Template.Spec
	volume := pod.Volumes[len(pod.Volumes)-1]
	if volume.Secret == nil || volume.Secret.SecretName != "cert" || !*volume.Secret.Optional {
		t.Errorf("the last volume is %+v, want the optional Secret cert", volume)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/moq/tls/cert" }) {
			t.Errorf("container %s does not mount /etc/moq/tls/cert", c.Name)
		}
	}
	if want := `directories: ["/etc/moq/tls/cert"]`; !strings.Contains(objects.Config.Data["relay.yaml"], want) {
		t.Errorf("the configuration lacks %s:\n%s", want, objects.Config.Data["relay.yaml"])
	}
}

// minimal is the shortest valid MoQRelay, without the API server's defaults.
func minimal() *v1alpha1.MoQRelay {
	relay := &v1alpha1.MoQRelay{}
	relay.Name, relay.Namespace, relay.UID = "demo", "tv", "00000000-0000-4000-8000-000000000001"
	relay.Spec.Auth.Mode = v1alpha1.AuthNone
	relay.Spec.TLS.SecretName = "cert"
	return relay
}
