// Package preflight looks at the machine before a relay starts on it, raises the
// node's socket buffer limits when told to, and says what it found in one small
// JSON object. [Report] is that object, and the contract with whoever reads a
// pod's termination message; [Run] makes it.
package preflight
