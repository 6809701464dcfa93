// Package admin is the status port: probes, metrics, the status document, and
// for those on the machine itself draining, snapshots and profiles. It is the
// only package that knows the metrics library.
//
// [Handler] joins small interfaces that the relay implements: a [StatusSource]
// and a [StatsSource] are read once per request and nothing is kept, so that a
// probe costs what its answer costs. [Liveness] decides when the process is
// beyond help. [Serve] runs the handler on a listener.
//
// Probes, /metrics and /statusz answer everyone who can reach the port. The rest
// answers loopback peers alone, of which a port-forward is one.
package admin
