package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// grantedPods are newObservation's pods, of which the second got less.
func grantedPods(o *observation, rx, tx int64, fault preflight.Reason) {
	p := newPod("demo-b", "n2")
	r := goodReport("n2")
	r.RX.Got, r.TX.Got, r.Err = rx, tx, fault
	setReport(&p, r)
	o.pods = readPods([]corev1.Pod{newPod("demo-a", "n1"), p})
}

func TestSocketBuffersReady(t *testing.T) {
	runConditionCases(t, socketBuffers, []conditionCase{
		{name: "all were granted", status: trueStatus, reason: v1alpha1.ReasonGranted},
		{
			name: "receive below request names pod, node and both figures", change: func(o *observation) {
				grantedPods(o, 212992, 212992, preflight.ReasonReceiveBelowRequested)
			}, status: falseStatus, reason: v1alpha1.ReasonReceiveBelowRequested,
			message: []string{"pod demo-b on node n2", "212992 of 4194304 bytes of receive buffer", "moqrelay.io/host-access=allowed"},
		},
		{name: "send below request", change: func(o *observation) {
			grantedPods(o, 4<<20, 212992, preflight.ReasonSendBelowRequested)
		}, status: falseStatus, reason: v1alpha1.ReasonSendBelowRequested, message: []string{"212992 of 4194304 bytes of send buffer", "net.core.wmem_max"}},
		{name: "the node refused to be raised", change: func(o *observation) {
			o.mode = v1alpha1.SocketBuffersRaiseNode
			grantedPods(o, 212992, 212992, preflight.ReasonRaiseRefused)
		}, status: falseStatus, reason: v1alpha1.ReasonRaiseRefused, message: []string{"the node refused", "socketBuffers.mode Verify"}},
		{name: "a larger grant than asked is a grant", change: func(o *observation) {
			grantedPods(o, 8<<20, 8<<20, "")
		}, status: trueStatus, reason: v1alpha1.ReasonGranted},
		{name: "no UDP socket, no need", change: func(o *observation) {
			o.relay.Spec.Transports.QUIC.State, o.pods = v1alpha1.Disabled, nil
		}, status: trueStatus, reason: v1alpha1.ReasonGranted},
		{name: "no pod", change: func(o *observation) { o.pods = nil }, status: unknownStatus, reason: v1alpha1.ReasonPending},
		{name: "preflight ended without figures", change: func(o *observation) {
			p := newPod("demo-x", "n7")
			setEnd(&p.Status.InitContainerStatuses[0], 0, "")
			onePod(o, p)
		}, status: unknownStatus, reason: v1alpha1.ReasonNoReport, message: []string{"pod demo-x on node n7"}},
		{name: "a report of a version that we do not know is none", change: func(o *observation) {
			p := newPod("demo-x", "n7")
			setEnd(&p.Status.InitContainerStatuses[0], 0, `{"v":2,"rx":{"want":1,"got":1},"tx":{"want":1,"got":1}}`)
			onePod(o, p)
		}, status: unknownStatus, reason: v1alpha1.ReasonNoReport},
		{name: "the report of the last run counts while preflight starts again", change: func(o *observation) {
			p := newPod("demo-x", "n7")
			c := &p.Status.InitContainerStatuses[0]
			c.LastTerminationState, c.State = c.State, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			onePod(o, p)
		}, status: trueStatus, reason: v1alpha1.ReasonGranted},
	})
}
