package controllers

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

const (
	trueStatus    = metav1.ConditionTrue
	falseStatus   = metav1.ConditionFalse
	unknownStatus = metav1.ConditionUnknown
)

// An observation is all that the status is made of: what was seen in the
// cluster, and how the pass over the children went.
type observation struct {
	relay      *v1alpha1.MoQRelay
	deployment *appsv1.Deployment // nil: there is none
	service    *corev1.Service    // nil: there is none
	pods       []pod              // by name
	// fault is why the children are not as wanted; nil: they are.
	fault *fault
	// intended is what was rendered; its zero value keeps the last status' values.
	intended
	version string // of the operator
	now     time.Time
}

// intended is what the status tells of the rendered objects.
type intended struct {
	image, configHash, liveConfigHash string
	// mode is RaiseNode or Verify; empty when nothing was rendered.
	mode     v1alpha1.SocketBuffersMode
	selector map[string]string
}

func (o observation) replicas() int32 {
	if o.relay.Spec.Replicas == nil {
		return 1
	}
	return *o.relay.Spec.Replicas
}

// deploymentReplicas is how many pods the Deployment is told to have, which is
// not spec.replicas while the object is paused or refused.
func (o observation) deploymentReplicas() int32 {
	if o.deployment.Spec.Replicas == nil {
		return 1
	}
	return *o.deployment.Spec.Replicas
}

func (o observation) selfSigned() bool { return o.relay.Spec.TLS.Mode == v1alpha1.TLSSelfSigned }

// drainSeconds is the longest time that a draining pod may take.
func (o observation) drainSeconds() int32 {
	if o.relay.Spec.Drain.TimeoutSeconds == nil {
		return 0
	}
	return *o.relay.Spec.Drain.TimeoutSeconds
}

// verdicts are the findings by condition type.
type verdicts map[string]verdict

// judge calls every condition function. Ready comes last, it sums up.
func judge(o observation) verdicts {
	v := verdicts{
		v1alpha1.ConditionReconciled:         reconciled(o),
		v1alpha1.ConditionAvailable:          available(o),
		v1alpha1.ConditionProgressing:        progressing(o),
		v1alpha1.ConditionDegraded:           degraded(o),
		v1alpha1.ConditionSocketBuffersReady: socketBuffers(o),
		v1alpha1.ConditionCertificateReady:   certificate(o),
		v1alpha1.ConditionAddressReady:       address(o),
		v1alpha1.ConditionDataPlaneHealthy:   dataPlane(o),

		v1alpha1.ConditionConfigurationApplied: configurationApplied(o),
	}
	v[v1alpha1.ConditionReady] = readiness(v)
	return v
}

// conditionOrder is the order in which conditions are listed: the summary first.
var conditionOrder = []string{
	v1alpha1.ConditionReady, v1alpha1.ConditionReconciled, v1alpha1.ConditionAvailable, v1alpha1.ConditionProgressing,
	v1alpha1.ConditionDegraded, v1alpha1.ConditionSocketBuffersReady, v1alpha1.ConditionCertificateReady, v1alpha1.ConditionAddressReady,
	v1alpha1.ConditionDataPlaneHealthy, v1alpha1.ConditionConfigurationApplied,
}

// status makes the whole status of a completed pass, and says when it may change
// although nothing in the cluster does (zero: never). It depends on its argument
// alone.
func status(o observation) (v1alpha1.MoQRelayStatus, time.Time) {
	s := *o.relay.Status.DeepCopy()
	s.ObservedGeneration = o.relay.Generation
	s.OperatorVersion = o.version
	countPods(&s, o)
	if o.mode != "" {
		s.Image, s.ConfigHash, s.LiveConfigHash = o.image, o.configHash, o.liveConfigHash
		s.Selector = labels.SelectorFromSet(o.selector).String()
		s.SocketBuffers = socketBufferStatus(o)
	}
	s.Endpoints = endpoints(o)
	s.Certificates = certificates(o)
	s.Peers = peers(o)

	var wake time.Time
	found := judge(o)
	conditions := make([]metav1.Condition, 0, len(conditionOrder))
	for _, kind := range conditionOrder {
		v := found[kind]
		wake = earlier(wake, v.until)
		previous := meta.FindStatusCondition(o.relay.Status.Conditions, kind)
		conditions = append(conditions, v.condition(kind, previous, o.relay.Generation, o.now))
	}
	s.Conditions = conditions
	return s, wake
}

// countPods fills the counters. Draining pods are those that were told to stop
// and still run; the others are replicas.
func countPods(s *v1alpha1.MoQRelayStatus, o observation) {
	s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.DrainingReplicas = 0, 0, 0, 0
	for _, p := range o.pods {
		switch {
		case p.draining():
			s.DrainingReplicas++
		case p.ready():
			s.Replicas++
			s.ReadyReplicas++
		default:
			s.Replicas++
		}
	}
	if d := o.deployment; d != nil && d.Status.ObservedGeneration == d.Generation {
		s.UpdatedReplicas = d.Status.UpdatedReplicas
	}
}

// maxNodesBelow bounds status.socketBuffers.nodesBelow.
const maxNodesBelow = 10

// socketBufferStatus tells what was asked and what the nodes granted, by the
// reports of the pods that serve.
func socketBufferStatus(o observation) *v1alpha1.SocketBuffersStatus {
	s := &v1alpha1.SocketBuffersStatus{Mode: o.mode}
	s.Receive.Requested = inBytes(o.relay.Spec.SocketBuffers.Receive)
	s.Send.Requested = inBytes(o.relay.Spec.SocketBuffers.Send)
	var below []string
	for _, p := range serving(o.pods) {
		if p.report == nil || p.report.RX == nil || p.report.TX == nil {
			continue
		}
		s.Receive.GrantedMin = smaller(s.Receive.GrantedMin, p.report.RX.Got)
		s.Send.GrantedMin = smaller(s.Send.GrantedMin, p.report.TX.Got)
		if belowRequest(p.report.RX) || belowRequest(p.report.TX) {
			below = append(below, p.Spec.NodeName)
		}
	}
	slices.Sort(below)
	below = slices.Compact(below)
	s.NodesBelow = below[:min(len(below), maxNodesBelow)]
	return s
}

// inBytes writes a size in the status' form, however the user wrote it.
func inBytes(q *resource.Quantity) *resource.Quantity {
	if q == nil {
		return nil
	}
	return resource.NewQuantity(q.Value(), resource.BinarySI)
}

func smaller(least *resource.Quantity, got int64) *resource.Quantity {
	if least != nil && least.Value() <= got {
		return least
	}
	return resource.NewQuantity(got, resource.BinarySI)
}

// certificates is the one of the relay's Secret, as the newest pod that knows it
// reported it; none when the relay signs its own.
func certificates(o observation) []v1alpha1.CertificateStatus {
	if o.selfSigned() {
		return nil
	}
	pods := serving(o.pods)
	slices.SortStableFunc(pods, func(a, b pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for _, p := range pods {
		if p.report == nil {
			continue
		}
		for _, c := range p.report.Certs {
			if c.Secret == o.relay.Spec.TLS.SecretName && c.NotAfter != nil {
				return []v1alpha1.CertificateStatus{certificateStatus(c)}
			}
		}
	}
	return nil
}

// Bounds of a certificate's row, which the API server enforces. A report is what a
// container wrote, so that it is cut to them.
const (
	maxNames = 8
	maxName  = 253
	maxHash  = 64
)

func certificateStatus(c preflight.Cert) v1alpha1.CertificateStatus {
	row := v1alpha1.CertificateStatus{SecretName: c.Secret}
	if end := c.NotAfter.UTC().Truncate(time.Second); end.Year() <= 9999 {
		row.NotAfter = &metav1.Time{Time: end}
	}
	if len(c.SHA256) <= maxHash {
		row.SHA256 = c.SHA256
	}
	for _, name := range c.Names[:min(len(c.Names), maxNames)] {
		if len(name) <= maxName {
			row.DNSNames = append(row.DNSNames, name)
		}
	}
	return row
}
