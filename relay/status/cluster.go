package status

import "time"

// Cluster is what one relay knows of the others. Expected and Connected are equal
// where a mesh is whole.
type Cluster struct {
	// Node is the configured name of this process; empty where its id is random.
	Node string `json:"node"`
	// ID is this relay's hop id, below 2^53.
	ID uint64 `json:"id"`
	// Expected counts the addresses that the peers' names have, this relay's own
	// left out as soon as it is known to be that. Connected counts those of them
	// whose relay is reached over a session, whoever has dialled it.
	Expected  int `json:"expected"`
	Connected int `json:"connected"`
	// Peers are the addresses of the mesh, and relays that have dialled this one from
	// elsewhere.
	Peers []Peer `json:"peers"`
	// Upstreams are the relays elsewhere.
	Upstreams []Upstream `json:"upstreams"`
	// Refused counts connections between peer ports that were refused because the
	// other side has none of our TLS keys, whoever has dialled.
	Refused int64 `json:"refused"`
	// Drops counts datagrams that the kernel threw away because the receive buffer of
	// the peer port was full.
	Drops uint64 `json:"drops"`
}

// Peer is one address of the mesh.
type Peer struct {
	// Address is IP:PORT.
	Address string `json:"address"`
	// Hop is the id of the relay behind it; 0 while it was not met yet.
	Hop uint64 `json:"hop,omitempty"`
	// State is Connected, Connecting (Error says why that lasts), Self (this relay
	// itself) or Duplicate (the relay behind it is reached over another session).
	State string `json:"state"`
	// Since is when that state began.
	Since time.Time `json:"since"`
	// Error is why the last attempt failed or the last session ended; empty while
	// connected.
	Error string `json:"error,omitempty"`
}

// Upstream is one address of a relay elsewhere.
type Upstream struct {
	// URL is as configured, without its query; Address is what it stands for.
	URL     string `json:"url"`
	Address string `json:"address"`
	// State, Since and Error are as in [Peer].
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Error string    `json:"error,omitempty"`
}
