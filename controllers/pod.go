package controllers

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/controllers/health"
	"github.com/moqrelay/operator/controllers/render"
	"github.com/moqrelay/operator/relay/preflight"
)

// A pod is one pod of a relay with what its preflight container reported.
type pod struct {
	*corev1.Pod
	// report is nil until preflight has finished, and when its termination
	// message is not a report.
	report *preflight.Report
	// checked is true when preflight has finished at least once.
	checked bool
	// reading is what the pod says on its status port; the zero value when it was not
	// asked.
	reading health.Reading
}

// readPods turns pods as the API server gives them into ours, ordered by name so
// that a message which names "the first" pod names the same one each time. Pods
// that have ended (evicted ones linger) are left out: nothing serves there.
func readPods(items []corev1.Pod) []pod {
	pods := make([]pod, 0, len(items))
	for i := range items {
		p := &items[i]
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		report, checked := readReport(p)
		pods = append(pods, pod{Pod: p, report: report, checked: checked})
	}
	slices.SortFunc(pods, func(a, b pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

// readReport finds the preflight report of a pod in the container's present
// state, or in its last one while it is started again.
func readReport(p *corev1.Pod) (report *preflight.Report, checked bool) {
	c := statusOf(p.Status.InitContainerStatuses, render.ContainerPreflight)
	if c == nil {
		return nil, false
	}
	for _, state := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
		if state == nil {
			continue
		}
		checked = true
		if r := parseReport(state.Message); r != nil {
			return r, true
		}
	}
	return nil, checked
}

// parseReport reads a termination message; nil when it is not a report of the
// version that we know.
func parseReport(message string) *preflight.Report {
	r, err := preflight.ParseReport(message)
	if err != nil || r.V != preflight.SchemaVersion {
		return nil
	}
	return &r
}

// statusOf finds the status of the container of that name, nil if it has none yet.
func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

// containers are the states of all containers that the pod has one of, the
// preflight container first.
func (p pod) containers() []corev1.ContainerStatus {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

func (p pod) draining() bool { return p.DeletionTimestamp != nil }

func (p pod) ready() bool {
	c := p.condition(corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// condition finds a condition of the pod, nil if it has none of that type.
func (p pod) condition(kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// where names a pod for messages: pod demo-abc on node n1.
func (p pod) where() string {
	if p.Spec.NodeName == "" {
		return "pod " + p.Name
	}
	return fmt.Sprintf("pod %s on node %s", p.Name, p.Spec.NodeName)
}

// waitsFor says in a few words what a pod that is not ready waits for.
func (p pod) waitsFor() string {
	if p.Spec.NodeName == "" {
		return "waits for a node"
	}
	for _, c := range p.containers() {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s waits (%s)", c.Name, w.Reason)
		}
	}
	if cert := p.badCertificate(); cert != nil && cert.Err == preflight.ReasonSecretMissing {
		return fmt.Sprintf("waits for Secret %q", cert.Secret)
	}
	if !p.checked {
		return "checks its node"
	}
	return "starts"
}

// badCertificate is the first certificate of the report that has a fault, nil if
// there is none.
func (p pod) badCertificate() *preflight.Cert {
	if p.report == nil {
		return nil
	}
	for i := range p.report.Certs {
		if p.report.Certs[i].Err != "" {
			return &p.report.Certs[i]
		}
	}
	return nil
}

// serving are the pods that are meant to serve: not draining.
func serving(pods []pod) []pod {
	return slices.DeleteFunc(slices.Clone(pods), pod.draining)
}

// firstNotReady is the first of the pods that is not ready, nil if all are.
func firstNotReady(pods []pod) *pod {
	for i := range pods {
		if !pods[i].ready() {
			return &pods[i]
		}
	}
	return nil
}

// lastEnd is how a container ended the last time, nil if it never did.
func lastEnd(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// endText says how a container ended: what it reported itself, else its exit code.
func endText(end *corev1.ContainerStateTerminated) string {
	if end == nil {
		return "no exit code is known"
	}
	if r := parseReport(end.Message); r != nil && r.Err != "" {
		return strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Err, r.Msg), ": ")
	}
	return fmt.Sprintf("exit code %d", end.ExitCode)
}

// since is how long ago t was; an instant ahead of now (clocks differ) is now.
func since(t, now time.Time) time.Duration { return max(0, now.Sub(t)) }
