// Package status is the form of the document that a relay shows on /statusz, and
// that the operator reads. Fields are only added within one schema version; a
// reader ignores those it does not know.
package status

import "time"

// SchemaVersion is the value of [Document.Schema].
const SchemaVersion = 1

// Document is the state of one relay process at one instant.
type Document struct {
	// Schema is [SchemaVersion].
	Schema int `json:"v"`
	// Version is the relay's own version, such as "v0.1.0".
	Version string `json:"version"`
	// Started is when the process began to serve.
	Started time.Time `json:"started"`
	// Ready is what /readyz answers. Once true it stays true.
	Ready bool `json:"ready"`
	// Draining is true from the first request to stop.
	Draining bool `json:"draining"`
	// Sessions counts the open sessions of clients; those with other relays of the
	// configuration are in Cluster.
	Sessions int64 `json:"sessions"`
	// Config says which files are in force.
	Config Config `json:"config"`
	// Certificates are those that new connections get, the default one first.
	Certificates []Certificate `json:"certificates"`
	// SocketBuffers are the kernel's buffers of the UDP socket; nil without one.
	SocketBuffers *SocketBuffers `json:"socketBuffers,omitempty"`
	// Cache is what is held for viewers.
	Cache Cache `json:"cache"`
	// Misrouted counts packets that came to a UDP port and belong to no connection
	// of this process: meant for another one, or for a connection that has ended.
	Misrouted uint64 `json:"misrouted"`
	// Cluster is about the other relays; nil where none are configured.
	Cluster *Cluster `json:"cluster,omitempty"`
}

// Config says which configuration is in force.
type Config struct {
	// Hash is the SHA-256 of the config file's bytes when the process started, in
	// lower-case hex; empty without a file.
	Hash string `json:"hash"`
	// LiveHash is the same of the live config file that was last accepted.
	LiveHash string `json:"liveHash"`
	// NeedsRestart names the keys whose value in the files differs from the one in force.
	NeedsRestart []string `json:"needsRestart,omitempty"`
	// Rejected says why the newest files are not in force; empty when they are.
	Rejected string `json:"rejected,omitempty"`
}

// Certificate is a certificate chain's first one, as served.
type Certificate struct {
	// Name is the last element of its directory, which is the Secret's name in a
	// pod; "self-signed" for the one made at start.
	Name string `json:"name"`
	// SHA256 is the hash of the DER form, in lower-case hex.
	SHA256 string `json:"sha256"`
	// NotBefore and NotAfter bound its validity.
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	// DNSNames are the names it is good for, at most 8.
	DNSNames []string `json:"dnsNames,omitempty"`
}

// SocketBuffers are the buffers of the UDP socket, in bytes as asked of the
// kernel (half of what it reports).
type SocketBuffers struct {
	// Receive and Send are the two directions.
	Receive Buffer `json:"receive"`
	Send    Buffer `json:"send"`
	// Drops counts datagrams that the kernel threw away because Receive was full.
	Drops uint64 `json:"drops"`
}

// Buffer is one direction of a socket's buffers.
type Buffer struct {
	Requested int64 `json:"requested"`
	Granted   int64 `json:"granted"`
}

// Cache is what is held for viewers.
type Cache struct {
	// Bytes is the charge now, Capacity its ceiling.
	Bytes    int64 `json:"bytes"`
	Capacity int64 `json:"capacity"`
}

// Session is one line of the sessions snapshot. It holds no credentials: a
// request's query is left out.
type Session struct {
	// ID counts sessions of the process from 1.
	ID uint64 `json:"id"`
	// Kind is "client", "peer" for a relay of the mesh, "upstream" for one elsewhere
	// that this relay has dialled.
	Kind string `json:"kind"`
	// Transport and Protocol say what it speaks, such as "webtransport" and "moq-lite-06".
	Transport string `json:"transport"`
	Protocol  string `json:"protocol"`
	// Remote is the peer's address.
	Remote string `json:"remote"`
	// Started is when it was accepted.
	Started time.Time `json:"started"`
	// Watches counts what the peer watches, Publishes what is fetched from it.
	Watches   int `json:"watches"`
	Publishes int `json:"publishes"`
	// Announcements counts the routes that the peer offers.
	Announcements int `json:"announcements"`
	// Draining is true once the peer was told to leave.
	Draining bool `json:"draining"`
}

// Route is one line of the routes snapshot.
type Route struct {
	// Path is the broadcast's path.
	Path string `json:"path"`
	// Session is the [Session.ID] that offers it; 0 for a local one.
	Session uint64 `json:"session"`
	// Hops are the relays' ids on the way from the publisher.
	Hops []uint64 `json:"hops"`
}

// CachedTrack is one line of the cache snapshot.
type CachedTrack struct {
	// Path is the broadcast's path, Track the track's name.
	Path  string `json:"path"`
	Track string `json:"track"`
	// Groups is how many groups are held, Newest the highest of their numbers.
	Groups int    `json:"groups"`
	Newest uint64 `json:"newest"`
	// Bytes is what the cache is charged with for them.
	Bytes int64 `json:"bytes"`
}
