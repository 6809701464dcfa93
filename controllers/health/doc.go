// Package health asks relays for their status documents, off the path of a pass,
// and remembers what they said.
//
// A [Collector] is told by Track which pods a relay has, asks each of them once an
// interval, and makes a [Reading] of the answers: facts that stay as they are while
// nothing happens, so that a status made of them is not written again and again.
// What is counted (dropped datagrams) becomes a fact by [Reading]'s rules, which
// need more to begin than to go on. When a pod's facts change, the owner is named
// to Changed.
//
// Run owns all goroutines: one that deals out pods that are due, and the workers
// that ask. It knows no Kubernetes: a pod is a name and an address.
package health
