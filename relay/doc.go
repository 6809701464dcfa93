// Package relay is the server: it joins the model, the sessions, the transports
// and the status port into one process. The Go packages of this module carry no
// promise before version 1; what others may rely on are the custom resource, the
// configuration file, the status document, metric names and flags.
//
// A [Server] is made from a loaded configuration. [Server.Listen] opens every
// socket, [Server.Run] serves until it is told to stop, [Server.Drain] asks
// clients to leave and ends Run when they have.
//
// Files: server.go joins the parts, listen.go opens sockets, accept.go outlives
// what accepting may fail by, certificates.go has what TLS serves, split.go tells
// TLS from plain HTTP on one port, web.go the public HTTP routes, fetch.go those
// that give content, access.go who may do what, limits.go how much of it,
// sessions.go who is connected, drain.go how they are asked to leave, reload.go
// what changes while it runs, traffic.go what is counted, report.go what it tells
// about itself.
//
// Every goroutine belongs to Run, which waits for all of them.
package relay
