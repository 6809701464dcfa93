package controllers

import (
	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// socketBuffers judges whether every pod got the UDP socket buffers that it
// asked for, by the pods' preflight reports. A pod is held to what its own
// template asks for, so that a raised request does not blame the old pods.
func socketBuffers(o observation) verdict {
	if o.relay.Spec.Transports.QUIC.State == v1alpha1.Disabled {
		return isTrue(v1alpha1.ReasonGranted, "transports.quic.state is Disabled: no UDP socket is opened, so none needs buffers")
	}
	pods := serving(o.pods)
	granted := 0
	var missing *pod
	for i := range pods {
		p := &pods[i]
		switch {
		case p.report != nil && p.report.RX != nil && p.report.TX != nil:
			if v := podBuffers(*p, o.mode); v.status == falseStatus {
				return v
			}
			granted++
		case p.checked && missing == nil:
			missing = p
		}
	}
	switch {
	case missing != nil:
		return isUnknown(v1alpha1.ReasonNoReport, "%s: preflight left no figures: is spec.image a moq-relay?", missing.where())
	case granted == 0:
		return isUnknown(v1alpha1.ReasonPending, "no pod has asked its node for socket buffers yet")
	default:
		return isTrue(v1alpha1.ReasonGranted, "every pod has the receive and send buffers that it asked for")
	}
}

func podBuffers(p pod, mode v1alpha1.SocketBuffersMode) verdict {
	reason, what, sysctl, b := v1alpha1.ReasonReceiveBelowRequested, "receive", "net.core.rmem_max", p.report.RX
	switch {
	case belowRequest(p.report.RX):
	case belowRequest(p.report.TX):
		reason, what, sysctl, b = v1alpha1.ReasonSendBelowRequested, "send", "net.core.wmem_max", p.report.TX
	default:
		return isTrue(v1alpha1.ReasonGranted, "")
	}
	advice := "label the namespace " + v1alpha1.LabelHostAccess + "=" + v1alpha1.HostAccessAllowed +
		" and set socketBuffers.mode RaiseNode, or raise " + sysctl + " on the node"
	if p.report.Err == preflight.ReasonRaiseRefused {
		reason = v1alpha1.ReasonRaiseRefused
		advice = "the node refused to have " + sysctl + " raised: raise it by other means, or set socketBuffers.mode Verify"
	} else if mode == v1alpha1.SocketBuffersRaiseNode {
		advice = "raise " + sysctl + " on the node, or --max-node-buffer of the operator"
	}
	return isFalse(reason, "%s: %d of %d bytes of %s buffer granted; %s", p.where(), b.Got, b.Want, what, advice)
}

func belowRequest(b *preflight.Buffer) bool { return b.Got < b.Want }
