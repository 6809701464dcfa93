package preflight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// SchemaVersion is the value of [Report.V].
const SchemaVersion = 1

// MaxReport bounds the JSON form of a [Report] in bytes. A termination message
// may have 4 KiB; all containers of a pod together 12 KiB.
const MaxReport = 1024

// ExitCode is the exit code for faults that a user must fix (EX_CONFIG of
// sysexits.h): a report with Err says which.
const ExitCode = 78

// Reason is a machine-readable fault.
type Reason string

// The reasons of [Report.Err].
const (
	// ReasonReceiveBelowRequested: the receive buffer is smaller than asked.
	ReasonReceiveBelowRequested Reason = "ReceiveBelowRequested"
	// ReasonSendBelowRequested: the send buffer is smaller than asked, the receive buffer is not.
	ReasonSendBelowRequested Reason = "SendBelowRequested"
	// ReasonRaiseRefused: the node's limits are too low and could not be raised.
	ReasonRaiseRefused Reason = "RaiseRefused"
	// ReasonConfigInvalid: the configuration was refused; Msg lists the faults.
	ReasonConfigInvalid Reason = "ConfigInvalid"
	// ReasonSocketFailed: no UDP socket could be opened.
	ReasonSocketFailed Reason = "SocketFailed"
)

// The reasons of [Cert.Err]. They never make preflight fail: the pod starts,
// waits and recovers when the certificate does.
const (
	// ReasonSecretMissing: tls.crt or tls.key is not there.
	ReasonSecretMissing Reason = "SecretMissing"
	// ReasonParseError: tls.crt or tls.key is not what it should be.
	ReasonParseError Reason = "ParseError"
	// ReasonKeyMismatch: the key does not belong to the certificate.
	ReasonKeyMismatch Reason = "KeyMismatch"
	// ReasonExpired: the certificate's time is over.
	ReasonExpired Reason = "Expired"
	// ReasonNotYetValid: the certificate's time has not begun.
	ReasonNotYetValid Reason = "NotYetValid"
)

// Report is what preflight found, as one JSON object of at most [MaxReport]
// bytes. A relay that ends with [ExitCode] writes one too, with V, Err and Msg alone.
type Report struct {
	// V is [SchemaVersion].
	V int `json:"v"`
	// Arch is the architecture as Go names it, such as "amd64".
	Arch string `json:"arch,omitempty"`
	// Kernel is the kernel's release, such as "6.18.5".
	Kernel string `json:"kernel,omitempty"`
	// Node is the node's name; empty when the environment does not tell.
	Node string `json:"node,omitempty"`
	// Mode is the mode that was asked for: "Verify" or "RaiseNode".
	Mode string `json:"mode,omitempty"`
	// RX and TX are the receive and the send buffer; nil when no socket was opened.
	RX *Buffer `json:"rx,omitempty"`
	TX *Buffer `json:"tx,omitempty"`
	// Raised is true when this run raised a limit of the node.
	Raised bool `json:"raised,omitempty"`
	// MTU is the largest among the interfaces that are up, loopback aside; 0 when there is none.
	MTU int `json:"mtu,omitempty"`
	// GSO is true when the kernel can segment UDP datagrams itself.
	GSO bool `json:"gso,omitempty"`
	// V4 and V6 are true when an address of that family is there, loopback aside.
	V4 bool `json:"v4,omitempty"`
	V6 bool `json:"v6,omitempty"`
	// Certs are the certificate directories, in the order of the configuration.
	// Those without fault are left out first when the report is too large.
	Certs []Cert `json:"certs,omitempty"`
	// Err is the first fault; empty when there is none. It comes with exit code
	// [ExitCode], except that a buffer which is only preferred exits with 0.
	Err Reason `json:"err,omitempty"`
	// Msg explains Err to a person.
	Msg string `json:"msg,omitempty"`
}

// Buffer is one direction of the UDP socket's kernel buffers, in bytes as asked
// of the kernel.
type Buffer struct {
	// Want is what the configuration asks for.
	Want int64 `json:"want"`
	// Max is the node's limit (net.core.rmem_max or wmem_max); 0 when unknown.
	// Inside a pod it can be read in mode RaiseNode, and elsewhere on kernels
	// that show it to every network namespace.
	Max int64 `json:"max"`
	// Got is half of what getsockopt returns, because the kernel doubles it.
	Got int64 `json:"got"`
}

// Cert is what is in one certificate directory.
type Cert struct {
	// Secret is the last element of the directory, which is the Secret's name in a pod.
	Secret string `json:"secret"`
	// Err is the fault; empty when there is none.
	Err Reason `json:"err,omitempty"`
	// NotAfter is when the certificate ends; nil when none was read.
	NotAfter *time.Time `json:"notAfter,omitempty"`
	// Names are the DNS names and addresses it is good for, at most 8.
	Names []string `json:"names,omitempty"`
	// SHA256 is the hash of the DER form in lower-case hex; left out when the
	// report would be too large.
	SHA256 string `json:"sha256,omitempty"`
}

// JSON returns the report as one line of at most [MaxReport] bytes. What does
// not fit is left out, the least needed first.
func (r Report) JSON() []byte {
	r.Certs = slices.Clone(r.Certs)
	for _, shrink := range shrinkers {
		if data := encode(r); len(data) <= MaxReport {
			return data
		}
		shrink(&r)
	}
	for len(r.Certs) > 0 && len(encode(r)) > MaxReport {
		r.Certs = r.Certs[:len(r.Certs)-1]
	}
	return encode(r)
}

// shrinkers each make a report smaller. After all of them only the number of
// certificates can make it too large.
var shrinkers = []func(r *Report){
	func(r *Report) { eachCert(r, func(c *Cert) { c.SHA256 = "" }) },
	func(r *Report) { eachCert(r, func(c *Cert) { c.Names = nil }) },
	func(r *Report) { r.Msg = cut(r.Msg, 200) },
	func(r *Report) {
		r.Certs = slices.DeleteFunc(r.Certs, func(c Cert) bool { return c.Err == "" })
		r.Node, r.Kernel = cut(r.Node, 64), cut(r.Kernel, 64)
	},
}

// eachCert changes every certificate.
func eachCert(r *Report, change func(c *Cert)) {
	for i := range r.Certs {
		change(&r.Certs[i])
	}
}

// cut returns text with at most that many bytes of it, all printable ASCII so
// that none becomes six in JSON.
func cut(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = text[:most-3] + "..."
	}
	return text
}

// encode is the JSON form, with <, > and & as they are.
func encode(r Report) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// Strings, numbers and times within four-digit years: nothing that can fail.
	_ = e.Encode(r)
	return bytes.TrimSpace(b.Bytes())
}

// ParseReport reads the JSON form, as from a termination message. Fields that
// it does not know are ignored.
func ParseReport(text string) (Report, error) {
	var r Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Report{}, fmt.Errorf("read preflight report: %w", err)
	}
	return r, nil
}

// Exit returns the exit code of a process that made this report: 0 when the
// relay may start, else [ExitCode]. Buffers that are too small stop it only
// where they are required.
func (r Report) Exit(requirement config.BufferRequirement) int {
	switch r.Err {
	case "":
		return 0
	case ReasonReceiveBelowRequested, ReasonSendBelowRequested, ReasonRaiseRefused:
		if requirement != config.Required {
			return 0
		}
		return ExitCode
	default:
		return ExitCode
	}
}
