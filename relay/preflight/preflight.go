package preflight

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"time"

	"github.com/moqrelay/operator/relay/config"
)

// DefaultMaxNodeBuffer is how far preflight raises a limit of the node at most, in bytes.
const DefaultMaxNodeBuffer = 64 << 20

// Options are what [Run] needs besides the configuration.
type Options struct {
	// Node is the node's name for the report; empty when unknown.
	Node string
	// Proc is where the node's /proc is, for mode RaiseNode. Empty: "/host/proc".
	Proc string
	// MaxNodeBuffer bounds, in bytes, what the node's limits are raised to. 0:
	// [DefaultMaxNodeBuffer].
	MaxNodeBuffer int64
	// Now is the time that certificates are judged by. Zero: the present.
	Now time.Time
}

// Run looks at the machine and the certificates, raises the node's limits where
// the configuration says so, and reports. It never lowers a limit, and a fault
// of a certificate is no fault of the run. Nothing of what it opens stays open.
func Run(ctx context.Context, c config.Config, o Options) Report {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	r := Report{
		V:      SchemaVersion,
		Arch:   runtime.GOARCH,
		Kernel: kernel(),
		Node:   o.Node,
		Mode:   string(c.SocketBuffers.Mode),
		Certs:  inspectAll(c.TLS.Directories, o.Now),
	}
	r.describeNetwork()
	if c.Transports.QUIC.State.On() {
		r.buffers(ctx, c.SocketBuffers, o)
	}
	return r
}

// Invalid is the report of a configuration that was refused.
func Invalid(err error) Report {
	return Report{V: SchemaVersion, Err: ReasonConfigInvalid, Msg: err.Error()}
}

// describeNetwork fills what the interfaces tell.
func (r *Report) describeNetwork() {
	interfaces, _ := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		r.MTU = max(r.MTU, i.MTU)
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			ip, _, err := net.ParseCIDR(a.String())
			if err != nil || !ip.IsGlobalUnicast() {
				continue
			}
			r.V4 = r.V4 || ip.To4() != nil
			r.V6 = r.V6 || ip.To4() == nil
		}
	}
}

// buffers raises the limits if told to, then asks for the buffers as the relay
// will, and notes what came of it.
func (r *Report) buffers(ctx context.Context, want config.SocketBuffers, o Options) {
	asked := limits{int64(want.Receive), int64(want.Send)}
	node := readLimits()
	var refused error
	if want.Mode == config.RaiseNode {
		var inside limits
		inside, r.Raised, refused = raise(ctx, asked, o.withDefaults())
		if inside != (limits{}) {
			node = inside
		}
	}
	got, gso, err := ask(asked)
	if err != nil {
		r.Err, r.Msg = ReasonSocketFailed, fmt.Sprintf("open a UDP socket: %v", err)
		return
	}
	r.GSO = gso
	r.RX = &Buffer{Want: asked.receive, Max: node.receive, Got: got.receive}
	r.TX = &Buffer{Want: asked.send, Max: node.send, Got: got.send}
	r.judge(refused)
}

// judge sets Err when a buffer is smaller than asked.
func (r *Report) judge(refused error) {
	receive, send := r.RX.Got < r.RX.Want, r.TX.Got < r.TX.Want
	switch {
	case !receive && !send:
		return
	case refused != nil:
		r.Err, r.Msg = ReasonRaiseRefused, refused.Error()
	case receive:
		r.Err, r.Msg = ReasonReceiveBelowRequested, r.RX.tooSmall("receive", "net.core.rmem_max")
	default:
		r.Err, r.Msg = ReasonSendBelowRequested, r.TX.tooSmall("send", "net.core.wmem_max")
	}
}

// tooSmall explains a buffer that is smaller than asked.
func (b Buffer) tooSmall(direction, sysctl string) string {
	return fmt.Sprintf("the %s buffer is %d bytes, asked were %d: %s of the node is too low", direction, b.Got, b.Want, sysctl)
}

// limits are a figure for each direction, in bytes as asked of the kernel.
type limits struct{ receive, send int64 }

// withDefaults fills what was left unset.
func (o Options) withDefaults() Options {
	if o.Proc == "" {
		o.Proc = "/host/proc"
	}
	if o.MaxNodeBuffer == 0 {
		o.MaxNodeBuffer = DefaultMaxNodeBuffer
	}
	return o
}

// namespaces are the files that lead into the node's network namespace, in the
// order in which they are tried: process 1 may be closed to us, process 2 is a
// kernel thread.
func (o Options) namespaces() []string {
	return []string{filepath.Join(o.Proc, "1/ns/net"), filepath.Join(o.Proc, "2/ns/net")}
}
