// Package quic carries sessions over QUIC: native QUIC with one ALPN token per
// protocol, and WebTransport over HTTP/3, both on one UDP socket. It is the only
// package that knows quic-go.
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
// A session is a CONNECT request of quic-go's HTTP/3 and streams that begin with a
// few bytes of head (draft-ietf-webtrans-http3, all drafts that browsers speak):
// web_mux.go sorts the streams of a connection, webtransport.go is the session. A
// stream is a QUIC stream, so priorities are QUIC's, and the head goes in one packet
// with the first bytes.
//
// One session per connection. The protocol is chosen by our order of preference,
// not the client's, and a client that offers none of ours is refused before the
// session exists. A stream whose reset overtakes its head is not seen; that happens
// only where a peer does not know partial resets, or gave no credit for the head.
// Codes of streams and sessions have 32 bits there; larger ones are sent as the
// largest.
//
// # Priorities, datagrams, resets
//
// Priorities are strict between urgencies and taken at each packet; lost data goes
// before new data whatever its urgency. Datagrams (RFC 9221, on WebTransport HTTP
// datagrams) go before all streams; at most 32 wait to be sent, and 128 (32 on
// WebTransport) to be received. A reset that keeps some bytes reliable is told by
// Aborted once those were read.
//
// # Goroutines
//
// A [Listener] owns one that accepts connections and, per WebTransport
// connection, those of the HTTP/3 server and of the sorting; [Listener.Close] waits
// for all of them. A session has one that waits for its end. A connection that was
// dialled owns its socket and ends with it.
package quic
