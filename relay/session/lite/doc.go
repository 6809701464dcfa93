// Package lite is one peer that speaks moq-lite, in any version that package
// wire/lite has. It joins a [transport.Conn] to a [model.Origin].
//
// Read [Config] and [Session] first. [Session.Run] is the whole conversation:
// it says SETUP, accepts streams, asks for announcements, and returns when all
// of that is over. What the peer asks of us is the publisher half (announce_out.go,
// publisher.go, track.go, fetch.go); what we ask of the peer is the subscriber half
// (announce_in.go, subscriber.go, groups.go). The session is the [model.Source]
// of the routes that the peer announces.
//
// Names on the wire are below the session's root: the path of the client's
// request, or Config.Root. The origin knows absolute ones.
//
// # Goroutines
//
// All belong to the session, end with it, and Run waits for them. A session has
// three: Run itself, which accepts streams, one that accepts unidirectional ones,
// one that hears announcements. Each Announce stream of the peer has two (three on
// 03 and 04), a subscription of the peer two (one reads the Subscribe stream, one
// hands out groups), and each group that is being sent one. So a viewer that asks
// for announcements and watches one track costs eight beside its transport's. A
// track that we ask the peer for has two, and so has each group that arrives.
//
// # Errors
//
// Three sizes, decided in streams.go: an [Error] ends the session with its code;
// bytes that cannot be read end their stream and are counted; a refusal resets
// its stream with the code of [session.StreamCode]. Nothing that one peer sends
// reaches another session but groups, announcements and a publisher's own codes.
//
// # Beside subscriptions
//
// Groups that are asked for one by one are in fetch.go, both halves; reports of
// what a connection measures in probe.go; groups without a stream in datagram.go.
// A FETCH that is answered costs at most three goroutines, one that we send two; a
// Probe stream three. A session that passes datagrams on has one for each way in which
// any can come.
//
// # Order and patience
//
// Groups of all subscriptions and fetches are ranked by [session.Ranks]; control
// streams go before them. A subscription waits for a place among the session's
// groups and for the peer's stream credit first, and takes the newest group then.
// A peer that takes nothing of what waits for it is let go: [session.Stall].
package lite
