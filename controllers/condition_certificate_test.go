package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// certPod is a pod whose preflight found the certificate so.
func certPod(p corev1.Pod, c preflight.Cert) func(o *observation) {
	return func(o *observation) {
		r := goodReport(p.Spec.NodeName)
		r.Certs = []preflight.Cert{c}
		setReport(&p, r)
		onePod(o, p)
	}
}

func TestCertificateReady(t *testing.T) {
	starting, ready := newStartingPod("demo-x", "n7"), newPod("demo-x", "n7")
	end := func(d time.Duration) *time.Time { return new(noon.Add(d)) }
	const day = 24 * time.Hour
	runConditionCases(t, certificate, []conditionCase{
		{
			name: "three pods serve one that ends in 60 days", status: trueStatus, reason: v1alpha1.ReasonValid,
			message: []string{`Secret "tls"`, "until 2027-01-30T12:00:00Z"}, until: noon.Add(46 * day),
		},
		{
			name: "a ready pod whose certificate ends in 5 days", change: certPod(ready, preflight.Cert{Secret: "tls", NotAfter: end(5 * day)}),
			status: falseStatus, reason: v1alpha1.ReasonExpiringSoon, until: noon.Add(5 * day),
			message: []string{"pod demo-x on node n7", `Secret "tls"`, "renew it"},
		},
		{
			name: "a ready pod that started before its Secret was there", change: certPod(ready, preflight.Cert{Secret: "tls", Err: preflight.ReasonSecretMissing}),
			status: trueStatus, reason: v1alpha1.ReasonValid, message: []string{"came after they had started", "/statusz"},
		},
		{name: "no pod", change: func(o *observation) { o.pods = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "preflight has not finished", change: func(o *observation) {
			p := newStartingPod("demo-x", "n7")
			setWaiting(&p.Status.InitContainerStatuses[0], "PodInitializing", "")
			onePod(o, p)
		}, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{
			name: "the Secret is missing", change: certPod(starting, preflight.Cert{Secret: "tls", Err: preflight.ReasonSecretMissing}),
			status: falseStatus, reason: v1alpha1.ReasonSecretMissing, message: []string{"pod demo-x on node n7", "kubectl create secret tls tls"},
		},
		{
			name: "a ready pod overrules its report of a missing Secret", change: certPod(ready, preflight.Cert{Secret: "tls", Err: preflight.ReasonSecretMissing}),
			status: trueStatus, reason: v1alpha1.ReasonValid,
		},
		{
			name: "the key belongs to another", change: certPod(starting, preflight.Cert{Secret: "tls", Err: preflight.ReasonKeyMismatch}),
			status: falseStatus, reason: v1alpha1.ReasonKeyMismatch,
		},
		{
			name: "not PEM", change: certPod(starting, preflight.Cert{Secret: "tls", Err: preflight.ReasonParseError}),
			status: falseStatus, reason: v1alpha1.ReasonParseError,
		},
		{
			name: "not valid yet", change: certPod(starting, preflight.Cert{Secret: "tls", Err: preflight.ReasonNotYetValid, NotAfter: end(90 * day)}),
			status: falseStatus, reason: v1alpha1.ReasonNotYetValid,
		},
		{
			name: "expired when the pod looked", change: certPod(starting, preflight.Cert{Secret: "tls", Err: preflight.ReasonExpired, NotAfter: end(-day)}),
			status: falseStatus, reason: v1alpha1.ReasonExpired, message: []string{"2026-11-30T12:00:00Z", "renew it"},
		},
		{
			name: "expired since the pod looked", change: certPod(starting, preflight.Cert{Secret: "tls", NotAfter: end(0)}),
			status: falseStatus, reason: v1alpha1.ReasonExpired,
		},
		{
			name: "a starting pod has 13 days left", change: certPod(starting, preflight.Cert{Secret: "tls", NotAfter: end(13 * day)}),
			status: falseStatus, reason: v1alpha1.ReasonExpiringSoon, until: noon.Add(13 * day),
		},
		{
			name: "a starting pod has 15 days left", change: certPod(starting, preflight.Cert{Secret: "tls", NotAfter: end(15 * day)}),
			status: trueStatus, reason: v1alpha1.ReasonValid, until: noon.Add(day),
		},
		{
			name: "whether a ready pod got a newer one than the expired one cannot be seen", change: certPod(ready, preflight.Cert{Secret: "tls", Err: preflight.ReasonExpired, NotAfter: end(-day)}),
			status: unknownStatus, reason: v1alpha1.ReasonNoReport, message: []string{"restart the pod to be sure"},
		},
		{name: "a ready pod without a report", change: func(o *observation) {
			p := newPod("demo-x", "n7")
			setEnd(&p.Status.InitContainerStatuses[0], 0, "Hello from some other image")
			onePod(o, p)
		}, status: unknownStatus, reason: v1alpha1.ReasonNoReport},
		{name: "a ready pod whose report had no room for the certificate", change: func(o *observation) {
			p := newPod("demo-x", "n7")
			r := goodReport("n7")
			r.Certs = nil
			setReport(&p, r)
			onePod(o, p)
		}, status: trueStatus, reason: v1alpha1.ReasonValid},
		{name: "pods that have not looked yet do not speak for the others", change: func(o *observation) {
			p := newStartingPod("demo-aa", "n7")
			setWaiting(&p.Status.InitContainerStatuses[0], "PodInitializing", "")
			o.pods = readPods([]corev1.Pod{p, newPod("demo-b", "n1")})
		}, status: trueStatus, reason: v1alpha1.ReasonValid, until: noon.Add(46 * day)},
		{name: "self-signed and ready", change: func(o *observation) {
			o.relay.Spec.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}
		}, status: trueStatus, reason: v1alpha1.ReasonSelfSigned},
		{name: "self-signed and starting", change: func(o *observation) {
			o.relay.Spec.TLS = v1alpha1.TLSSpec{Mode: v1alpha1.TLSSelfSigned}
			onePod(o, starting)
		}, status: unknownStatus, reason: v1alpha1.ReasonPending},
	})
}
