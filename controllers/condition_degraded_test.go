package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/relay/preflight"
)

// preflightPod is a starting pod whose preflight container waits or ended as said.
func preflightPod(change func(c *corev1.ContainerStatus)) func(o *observation) {
	return func(o *observation) {
		p := newStartingPod("demo-x", "n7")
		change(&p.Status.InitContainerStatuses[0])
		onePod(o, p)
	}
}

// relayPod is a starting pod whose relay container waits or ended as said.
func relayPod(change func(c *corev1.ContainerStatus)) func(o *observation) {
	return func(o *observation) {
		p := newStartingPod("demo-x", "n7")
		change(&p.Status.ContainerStatuses[0])
		onePod(o, p)
	}
}

// unscheduled is a pod that has had no node for as long as said.
func unscheduled(d time.Duration) func(o *observation) {
	return func(o *observation) {
		p := newStartingPod("demo-x", "")
		p.Status.Conditions[0] = corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 Insufficient cpu.", LastTransitionTime: ago(d),
		}
		onePod(o, p)
	}
}

func lastEnded(c *corev1.ContainerStatus, restarts int32, end corev1.ContainerStateTerminated) {
	c.RestartCount = restarts
	c.LastTerminationState = corev1.ContainerState{Terminated: &end}
}

func TestDegraded(t *testing.T) {
	runConditionCases(t, degraded, []conditionCase{
		{name: "no trouble", status: falseStatus, reason: v1alpha1.ReasonAsExpected},
		{name: "no Deployment yet", change: func(o *observation) { o.deployment, o.pods = nil, nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "the registry does not have the image", change: preflightPod(func(c *corev1.ContainerStatus) {
			setWaiting(c, "ImagePullBackOff", `Back-off pulling image "example.test/moq-relay:1": ErrImagePull: failed to resolve reference: not found`)
		}), status: trueStatus, reason: v1alpha1.ReasonImagePull, message: []string{"pod demo-x on node n7", `"example.test/moq-relay:1"`, "the registry does not have it"}},
		{name: "the registry refuses access", change: preflightPod(func(c *corev1.ContainerStatus) {
			setWaiting(c, "ErrImagePull", "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope")
		}), status: trueStatus, reason: v1alpha1.ReasonImagePull, message: []string{"spec.imagePullSecrets"}},
		{name: "the image may not be pulled and is not there", change: preflightPod(func(c *corev1.ContainerStatus) {
			setWaiting(c, "ErrImageNeverPull", `Container image "example.test/moq-relay:1" is not present with pull policy of Never`)
		}), status: trueStatus, reason: v1alpha1.ReasonImagePull, message: []string{"imagePullPolicy is Never"}},
		{name: "wrong processor, as the runtime says", change: preflightPod(func(c *corev1.ContainerStatus) {
			setEnd(c, 128, "failed to create containerd task: exec /moq-relay: exec format error")
		}), status: trueStatus, reason: v1alpha1.ReasonImageArchitecture, message: []string{"another processor", "pod.nodeSelector"}},
		{name: "preflight says no", change: preflightPod(func(c *corev1.ContainerStatus) {
			setWaiting(c, "CrashLoopBackOff", "back-off 10s")
			lastEnded(c, 1, corev1.ContainerStateTerminated{
				ExitCode: preflight.ExitCode, FinishedAt: ago(time.Minute),
				Message: `{"v":1,"rx":{"want":4194304,"max":212992,"got":212992},"tx":{"want":4194304,"max":212992,"got":212992},"err":"ReceiveBelowRequested","msg":"212992 of 4194304 bytes"}`,
			})
		}), status: trueStatus, reason: v1alpha1.ReasonPreflightFailed, message: []string{"ReceiveBelowRequested: 212992 of 4194304 bytes"}},
		{name: "killed for memory four minutes ago", change: relayPod(func(c *corev1.ContainerStatus) {
			lastEnded(c, 1, corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: ago(4 * time.Minute)})
		}), status: trueStatus, reason: v1alpha1.ReasonOOMKilled, message: []string{"resources.limits.memory"}, until: noon.Add(6 * time.Minute)},
		{name: "killed for memory ten minutes ago is history", change: relayPod(func(c *corev1.ContainerStatus) {
			lastEnded(c, 1, corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: ago(10 * time.Minute)})
		}), status: falseStatus, reason: v1alpha1.ReasonAsExpected},
		{name: "held back after its third restart", change: relayPod(func(c *corev1.ContainerStatus) {
			setWaiting(c, "CrashLoopBackOff", "back-off 5m0s")
			lastEnded(c, 3, corev1.ContainerStateTerminated{ExitCode: 78, FinishedAt: ago(11 * time.Minute), Message: `{"v":1,"err":"ConfigInvalid","msg":"windows.stream: too large"}`})
		}), status: trueStatus, reason: v1alpha1.ReasonCrashLoop, message: []string{"container relay", "ConfigInvalid: windows.stream: too large"}},
		{name: "running again after its third restart", change: relayPod(func(c *corev1.ContainerStatus) {
			lastEnded(c, 3, corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: ago(time.Minute)})
		}), status: trueStatus, reason: v1alpha1.ReasonCrashLoop, message: []string{"exit code 2"}, until: noon.Add(9 * time.Minute)},
		{name: "two restarts are none", change: relayPod(func(c *corev1.ContainerStatus) {
			lastEnded(c, 2, corev1.ContainerStateTerminated{ExitCode: 2, FinishedAt: ago(time.Minute)})
		}), status: falseStatus, reason: v1alpha1.ReasonAsExpected},
		{name: "no node for 59 s is patience", change: unscheduled(59 * time.Second), status: falseStatus, reason: v1alpha1.ReasonAsExpected, until: noon.Add(time.Second)},
		{name: "no node for 60 s is trouble", change: unscheduled(60 * time.Second), status: trueStatus, reason: v1alpha1.ReasonUnschedulable, message: []string{"pod demo-x", "1 Insufficient cpu"}},
		{name: "trouble of several pods names the first and counts the others", change: func(o *observation) {
			var pods []corev1.Pod
			for _, name := range []string{"demo-z", "demo-x", "demo-y"} {
				p := newStartingPod(name, "n7")
				setWaiting(&p.Status.InitContainerStatuses[0], "ImagePullBackOff", "not found")
				pods = append(pods, p)
			}
			o.pods = readPods(pods)
		}, status: trueStatus, reason: v1alpha1.ReasonImagePull, message: []string{"pod demo-x", "(and 2 more pods)"}},
		{name: "a draining pod's trouble is its own", change: func(o *observation) {
			p := newStartingPod("demo-x", "n7")
			p.DeletionTimestamp = new(ago(0))
			setWaiting(&p.Status.ContainerStatuses[0], "ImagePullBackOff", "not found")
			onePod(o, p)
		}, status: falseStatus, reason: v1alpha1.ReasonAsExpected},
		{name: "a key that is not the certificate's", change: func(o *observation) {
			p := newStartingPod("demo-x", "n7")
			r := goodReport("n7")
			r.Certs = []preflight.Cert{{Secret: "tls", Err: preflight.ReasonKeyMismatch}}
			setReport(&p, r)
			onePod(o, p)
		}, status: trueStatus, reason: v1alpha1.ReasonCertificateInvalid, message: []string{`tls.key of Secret "tls"`}},
		{name: "a missing Secret is waited for", change: func(o *observation) {
			p := newStartingPod("demo-x", "n7")
			r := goodReport("n7")
			r.Certs = []preflight.Cert{{Secret: "tls", Err: preflight.ReasonSecretMissing}}
			setReport(&p, r)
			onePod(o, p)
		}, status: falseStatus, reason: v1alpha1.ReasonAsExpected},
		{name: "what keeps pods from being made comes first", change: func(o *observation) {
			unscheduled(time.Hour)(o)
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(webhookText))
		}, status: trueStatus, reason: v1alpha1.ReasonAdmissionDenied, message: []string{"Fridays"}},
		{name: "pod security refuses", change: func(o *observation) {
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(podSecurityText))
		}, status: trueStatus, reason: v1alpha1.ReasonPodSecurityDenied},
		{name: "quota refuses", change: func(o *observation) {
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(quotaText))
		}, status: trueStatus, reason: v1alpha1.ReasonQuotaExceeded},
		{name: "the kernel drops", change: says(0, health.Reading{Answered: true, KernelDrops: true}), status: trueStatus, reason: v1alpha1.ReasonKernelDrops, message: []string{"pod demo-a"}},
		{
			name: "a peer is missing", change: says(1, health.Reading{Answered: true, Mesh: true, Expected: 2, PeersMissing: true}),
			status: trueStatus, reason: v1alpha1.ReasonPeersMissing, message: []string{"pod demo-b on node n2 has a session with 0 of 2 peers"},
		},
		{name: "what keeps pods from being made comes before the data path", change: func(o *observation) {
			says(0, health.Reading{Answered: true, KernelDrops: true})(o)
			o.deployment.Status.Conditions = append(o.deployment.Status.Conditions, failing(quotaText))
		}, status: trueStatus, reason: v1alpha1.ReasonQuotaExceeded},
	})
}

func TestAPullMessageDoesNotChangeFromAttemptToAttempt(t *testing.T) {
	one := &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: `failed to do request: Head "https://example.test/v2/": dial tcp 10.0.0.1:34234->192.0.2.1:443: i/o timeout`}
	two := &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "x": ErrImagePull: dial tcp 10.0.0.1:51022->192.0.2.1:443: i/o timeout`}
	if a, b := pullText(one), pullText(two); a != b || a != "the node cannot reach the registry" {
		t.Errorf("got %q and %q, want both to say that the node cannot reach the registry", a, b)
	}
}
