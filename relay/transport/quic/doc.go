// Package quic carries sessions over QUIC: native QUIC with one ALPN token per
// protocol, and WebTransport over HTTP/3, both on one UDP socket. It is the only
// package that knows quic-go and webtransport-go.
//
// Servers: [Listen] with a [Config], then [Listener.Accept] in a loop. Clients:
// [Dial] for native QUIC, [DialWebTransport] for the way browsers come. All of
// them return a [transport.Conn].
//
// # Windows
//
// Initial and maximum windows are the same figure, so what a peer may send ahead
// of a reader is exactly [Settings].Windows from the first byte on; quic-go would
// else let them grow sixfold while it is read.
//
// # The socket
//
// quic-go raises a socket's buffers by itself when it starts to listen, and reads
// and writes in batches only on a bare *net.UDPConn. So the socket is never
// wrapped, and our sizes are set after that, then read back: [Listener.Socket].
//
// # WebTransport
//
// One session per connection. The protocol is chosen by our order of preference,
// not the client's, and a client that offers none of ours is refused before the
// session exists. A stream that the peer resets before its first byte is not
// seen. Codes of streams and sessions have 32 bits there; larger ones are sent as
// the largest.
//
// # Goroutines
//
// A [Listener] owns one that accepts connections and, per WebTransport
// connection, those of the HTTP/3 server; [Listener.Close] waits for all of them.
// A connection that was dialled owns its socket and ends with it.
package quic
