// Package cluster joins a relay to others: it knows where they are, dials them for
// ever, and sees to it that there is one session for each pair.
//
// There are two kinds of neighbours. Peers are relays with the same TLS key, on
// their peer port; everybody dials every address that the peers' names have. An
// upstream is the client port of a relay elsewhere, which this one joins as a client.
//
// Read [Config] and [Cluster] first. A target (target.go) is one address that is
// dialled; a link (link.go) is one session, dialled or accepted. What travels over
// them is not this package's business: [Config].Serve runs a session, and tells by
// the functions of [Link] whom it met.
//
// # One session for each pair
//
// Of two sessions between the same two relays the one stays that the relay with the
// smaller id dialled; of two that one relay dialled to different addresses of the
// other, its first. Who has dialled the other closes it a second later, when both sides
// know whom it leads to and what is announced over the one that stays has arrived. An address is
// not dialled while a session to the relay behind it lives. One behind which this
// relay itself answers is left alone for as long as DNS names it.
//
// # Goroutines
//
// [Cluster.Run] owns one for each target and each session, and waits for all.
package cluster
