package controllers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/controllers/render"
	"github.com/moqrelay/operator/relay/preflight"
)

const (
	// patience is how long a pod may be without a node before that is trouble.
	patience = 60 * time.Second
	// memory is how long the last end of a container counts as trouble.
	memory = 10 * time.Minute
	// crashes is how many restarts within memory are a crash loop.
	crashes = 3
)

// degraded judges whether something is wrong although service may go on. The
// first trouble in the order of the list below is the one that is told: what
// keeps pods from being made comes before what keeps them from starting, and
// that before what makes them end.
func degraded(o observation) verdict {
	if o.deployment != nil {
		if refused, ok := creationRefused(o.deployment); ok {
			return isTrue(refused.reason, "%s", refused.message)
		}
	}
	pods := serving(o.pods)
	var until time.Time
	for _, find := range []troubleFinder{imageArchitecture, imagePull, preflightFailed, outOfMemory, crashLoop, unschedulable} {
		v := firstTrouble(pods, find, o.now)
		until = earlier(until, v.until)
		if v.status != "" {
			return v.at(until)
		}
	}
	if cert := certificate(o); invalidCertificate(cert) {
		return isTrue(v1alpha1.ReasonCertificateInvalid, "%s", cert.message).at(earlier(cert.until, until))
	}
	if data := dataPlane(o); data.status == falseStatus {
		return isTrue(data.reason, "%s", data.message).at(until)
	}
	if o.deployment == nil {
		return isUnknown(v1alpha1.ReasonPending, "there is no Deployment yet")
	}
	return isFalse(v1alpha1.ReasonAsExpected, "no pod reports trouble").at(until)
}

// A troubleFinder judges one pod. Without trouble its verdict has no status, but
// may have an instant at which there will be some.
type troubleFinder func(p pod, now time.Time) verdict

// firstTrouble is the trouble of the first pod that has it, with the number of
// others; without any, the earliest instant at which there may be some.
func firstTrouble(pods []pod, find troubleFinder, now time.Time) verdict {
	var first verdict
	var until time.Time
	others := 0
	for _, p := range pods {
		v := find(p, now)
		until = earlier(until, v.until)
		switch {
		case v.status == "":
		case first.status == "":
			first = v
		default:
			others++
		}
	}
	if others > 0 {
		first.message += fmt.Sprintf(" (and %d more pods)", others)
	}
	return first.at(until)
}

func imageArchitecture(p pod, _ time.Time) verdict {
	for _, c := range p.containers() {
		if strings.Contains(stateText(c), "exec format error") {
			return isTrue(v1alpha1.ReasonImageArchitecture,
				"%s: image %q is built for another processor; choose an image for the node's, or nodes for the image by pod.nodeSelector kubernetes.io/arch",
				p.where(), c.Image)
		}
	}
	return verdict{}
}

// stateText is all that the kubelet says of a container's present and last state.
func stateText(c corev1.ContainerStatus) string {
	var texts []string
	if c.State.Waiting != nil {
		texts = append(texts, c.State.Waiting.Message)
	}
	for _, end := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if end != nil {
			texts = append(texts, end.Message)
		}
	}
	return strings.Join(texts, "\n")
}

// pullReasons are the kubelet's names for an image that cannot be had.
var pullReasons = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

func imagePull(p pod, _ time.Time) verdict {
	for _, c := range p.containers() {
		if w := c.State.Waiting; w != nil && slices.Contains(pullReasons, w.Reason) {
			return isTrue(v1alpha1.ReasonImagePull, "%s cannot have image %q: %s; pods that run go on", p.where(), c.Image, pullText(w))
		}
	}
	return verdict{}
}

// pullText says why an image cannot be had. The kubelet's own text changes with
// every attempt (ports, times), so that it is told in kinds.
func pullText(w *corev1.ContainerStateWaiting) string {
	text := strings.ToLower(w.Message)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	switch {
	case w.Reason == "ErrImageNeverPull":
		return "it is not on the node and imagePullPolicy is Never"
	case w.Reason == "InvalidImageName":
		return "this is not an image's name; correct spec.image"
	case has("not found", "manifest unknown", "name unknown"):
		return "the registry does not have it; correct spec.image"
	case has("unauthorized", "denied", "forbidden", "authentication", "credentials"):
		return "the registry refuses access; name a Secret in spec.imagePullSecrets"
	case has("no such host", "timeout", "connection refused", "dial tcp", "unreachable"):
		return "the node cannot reach the registry"
	default:
		return "the pull fails; correct spec.image or spec.imagePullSecrets (kubectl describe pod has the node's text)"
	}
}

func preflightFailed(p pod, _ time.Time) verdict {
	c := statusOf(p.Status.InitContainerStatuses, render.ContainerPreflight)
	if c == nil {
		return verdict{}
	}
	end := lastEnd(*c)
	if end == nil || end.ExitCode != preflight.ExitCode {
		return verdict{}
	}
	return isTrue(v1alpha1.ReasonPreflightFailed, "%s: preflight does not let the relay start: %s", p.where(), endText(end))
}

func outOfMemory(p pod, now time.Time) verdict {
	for _, c := range p.containers() {
		end := lastEnd(c)
		if end == nil || end.Reason != "OOMKilled" || since(end.FinishedAt.Time, now) >= memory {
			continue
		}
		return isTrue(v1alpha1.ReasonOOMKilled,
			"%s: container %s was killed for its memory limit; raise resources.limits.memory or lower cache.maxBytes", p.where(), c.Name).
			at(end.FinishedAt.Add(memory))
	}
	return verdict{}
}

func crashLoop(p pod, now time.Time) verdict {
	for _, c := range p.containers() {
		end := lastEnd(c)
		if c.RestartCount < crashes || end == nil {
			continue
		}
		v := isTrue(v1alpha1.ReasonCrashLoop, "%s: container %s ends again and again, the last time with %s", p.where(), c.Name, endText(end))
		// While the kubelet holds a restart back it counts for itself: it
		// forgives after ten minutes of running.
		if w := c.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			return v
		}
		if since(end.FinishedAt.Time, now) < memory {
			return v.at(end.FinishedAt.Add(memory))
		}
	}
	return verdict{}
}

func unschedulable(p pod, now time.Time) verdict {
	c := p.condition(corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return verdict{}
	}
	if since(c.LastTransitionTime.Time, now) < patience {
		return verdict{until: c.LastTransitionTime.Add(patience)}
	}
	return isTrue(v1alpha1.ReasonUnschedulable, "%s has had no node for more than %d s: %s; lower resources or selectors, or add a node",
		p.where(), int(patience.Seconds()), c.Message)
}

// invalidCertificate says that the content of a Secret is at fault. One that is
// merely missing is waited for, and one that ends soon still serves.
func invalidCertificate(v verdict) bool {
	switch v.reason {
	case v1alpha1.ReasonParseError, v1alpha1.ReasonKeyMismatch, v1alpha1.ReasonExpired, v1alpha1.ReasonNotYetValid:
		return true
	default:
		return false
	}
}
