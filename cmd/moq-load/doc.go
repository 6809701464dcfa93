// Command moq-load publishes and watches tracks through a relay and checks every
// byte: for a first look at a relay, for tests, and on call. Its clients are
// package relay/load.
package main
