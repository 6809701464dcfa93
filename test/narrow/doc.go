// Package narrow watches through a slow and lossy link between two hosts, which
// are network namespaces of this machine: 2 Mbit/s by the kernel's token bucket,
// 50 ms each way and every hundredth datagram lost by a forwarder of our own. It
// shows what a viewer gets of two tracks that do not both fit, and of two groups
// of which the older one is in the way. Build tag narrow; "make test-narrow" runs
// it, as root, because namespaces need that.
package narrow
