// Package load has the clients behind the program moq-load: publishers of tracks
// whose every byte can be checked, viewers that check them, and a clock. They
// speak moq-lite over every transport that a relay offers.
//
// Target says where to connect and how; [Publish] and [View] are the clients.
// Content is what a publisher sends: Checked has payloads that prove themselves,
// as they name their place in the track and carry a hash, so that a viewer needs
// to know nothing of the publisher; Clock tells the time as text.
//
// Every client is a plain function that returns when it is done and has waited
// for all it started, so that a generator may run any number of them.
package load
