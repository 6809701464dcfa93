package preflight

import (
	"encoding/json"
	"time"
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

// ParseReport reads the JSON form, as from a termination message. Fields that
// it does not know are ignored.
func ParseReport(text string) (Report, error) {
	var r Report
	err := json.Unmarshal([]byte(text), &r)
	return r, err
}
