package controllers

import (
	"fmt"
	"time"

	"github.com/moqrelay/operator/api/v1alpha1"
	"github.com/moqrelay/operator/relay/preflight"
)

// expiryWarning is how long before its end a certificate is called ExpiringSoon.
const expiryWarning = 14 * 24 * time.Hour

// certificate judges whether every pod has a valid certificate. The operator
// reads no Secret: a pod that is not ready speaks by its preflight report; a pod
// that is ready has loaded a certificate, whatever its report said before that.
func certificate(o observation) verdict {
	pods := serving(o.pods)
	if o.selfSigned() {
		return selfSigned(pods)
	}
	var unknown, good *verdict
	for _, p := range pods {
		v := podCertificate(p, o.now)
		switch {
		case v.status == falseStatus:
			return v
		case v.reason == v1alpha1.ReasonPending: // says nothing of the others
		case v.status == unknownStatus && unknown == nil:
			unknown = &v
		case v.status == trueStatus && (good == nil || (!v.until.IsZero() && earlier(good.until, v.until) == v.until)):
			good = &v
		}
	}
	switch {
	case unknown != nil:
		return *unknown
	case good != nil:
		return *good
	default:
		return isUnknown(v1alpha1.ReasonPending, "no pod has looked at Secret %q yet", o.relay.Spec.TLS.SecretName)
	}
}

func selfSigned(pods []pod) verdict {
	for _, p := range pods {
		if p.ready() {
			return isTrue(v1alpha1.ReasonSelfSigned, "the relay makes and renews its own certificate, for development; clients must fetch its fingerprint from /certificate.sha256")
		}
	}
	return isUnknown(v1alpha1.ReasonPending, "no relay has started yet")
}

func podCertificate(p pod, now time.Time) verdict {
	switch {
	case p.report == nil && p.ready():
		return isUnknown(v1alpha1.ReasonNoReport, "%s left no preflight report: is spec.image a moq-relay?", p.where())
	case p.report != nil && len(p.report.Certs) == 0 && p.ready(): // left out for size, as only faultless ones are
		return isTrue(v1alpha1.ReasonValid, "%s serves a certificate", p.where())
	case p.report == nil || len(p.report.Certs) == 0:
		return isUnknown(v1alpha1.ReasonPending, "%s has not looked at its certificate yet", p.where())
	}
	worst := verdict{}
	for _, c := range p.report.Certs {
		v := judgeCertificate(p, c, now)
		if worst.status == "" || v.status != trueStatus {
			worst = v
		}
		if v.status == falseStatus {
			break
		}
	}
	return worst
}

// judgeCertificate judges one certificate as one pod found it when it started.
func judgeCertificate(p pod, c preflight.Cert, now time.Time) verdict {
	outdated := c.Err == preflight.ReasonExpired || c.Err == preflight.ReasonNotYetValid || (c.NotAfter != nil && !now.Before(*c.NotAfter))
	switch {
	case p.ready() && outdated:
		return isUnknown(v1alpha1.ReasonNoReport,
			"%s: the certificate of Secret %q that it found when it started is valid %s; whether a newer one is served cannot be seen: after renewing, restart the pod to be sure",
			p.where(), c.Secret, validity(c))
	case p.ready() && c.NotAfter == nil:
		return isTrue(v1alpha1.ReasonValid, "the pods serve the certificate of Secret %q, which came after they had started: how long it is valid is on their /statusz", c.Secret)
	case p.ready() && now.Add(expiryWarning).After(*c.NotAfter):
		return isFalse(v1alpha1.ReasonExpiringSoon,
			"%s: the certificate of Secret %q that it found when it started is valid %s only; renew it, no restart is needed (a renewal since then shows here when the pod starts anew)",
			p.where(), c.Secret, validity(c)).at(ends(c))
	case p.ready():
		return isTrue(v1alpha1.ReasonValid, "the pods serve the certificate of Secret %q; when they started it was valid %s", c.Secret, validity(c)).at(c.NotAfter.Add(-expiryWarning))
	case c.Err != "":
		return isFalse(certificateReason(c.Err), "%s: %s", p.where(), certificateAdvice(c))
	case c.NotAfter == nil:
		return isTrue(v1alpha1.ReasonValid, "%s found Secret %q in order", p.where(), c.Secret)
	case outdated:
		return isFalse(v1alpha1.ReasonExpired, "%s: %s", p.where(), certificateAdvice(c))
	case now.Add(expiryWarning).After(*c.NotAfter):
		return isFalse(v1alpha1.ReasonExpiringSoon, "%s: the certificate of Secret %q is valid %s only; renew it, no restart is needed", p.where(), c.Secret, validity(c)).at(*c.NotAfter)
	default:
		return isTrue(v1alpha1.ReasonValid, "%s found the certificate of Secret %q valid %s", p.where(), c.Secret, validity(c)).at(c.NotAfter.Add(-expiryWarning))
	}
}

// certificateReason is the condition's reason for a fault that a report names. A
// report is what a container wrote, so that an unknown fault must not get through.
func certificateReason(fault preflight.Reason) string {
	switch fault {
	case preflight.ReasonSecretMissing:
		return v1alpha1.ReasonSecretMissing
	case preflight.ReasonKeyMismatch:
		return v1alpha1.ReasonKeyMismatch
	case preflight.ReasonExpired:
		return v1alpha1.ReasonExpired
	case preflight.ReasonNotYetValid:
		return v1alpha1.ReasonNotYetValid
	default:
		return v1alpha1.ReasonParseError
	}
}

// ends is when a certificate ends, zero when that is not known.
func ends(c preflight.Cert) time.Time {
	if c.NotAfter == nil {
		return time.Time{}
	}
	return *c.NotAfter
}

func validity(c preflight.Cert) string {
	if c.NotAfter == nil {
		return "until an unknown date"
	}
	return "until " + c.NotAfter.UTC().Format(time.RFC3339)
}

// certificateAdvice says what is wrong with a Secret and who mends it how.
func certificateAdvice(c preflight.Cert) string {
	switch c.Err {
	case preflight.ReasonSecretMissing:
		return fmt.Sprintf("Secret %q does not exist or lacks tls.crt or tls.key; create it (kubectl create secret tls %s --cert=FILE --key=FILE), the pods then start by themselves", c.Secret, c.Secret)
	case preflight.ReasonParseError:
		return fmt.Sprintf("tls.crt or tls.key of Secret %q is not PEM of a certificate chain and its key; correct the Secret", c.Secret)
	case preflight.ReasonKeyMismatch:
		return fmt.Sprintf("tls.key of Secret %q does not belong to its tls.crt; correct the Secret", c.Secret)
	case preflight.ReasonNotYetValid:
		return fmt.Sprintf("the certificate of Secret %q is not valid yet; wait, or correct the Secret or the node's clock", c.Secret)
	default:
		return fmt.Sprintf("the certificate of Secret %q was valid %s; renew it", c.Secret, validity(c))
	}
}
