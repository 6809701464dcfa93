// Package transporttest is the contract of [transport.Conn] as tests: one suite
// that every transport passes. A transport's own test calls [Run] with a function
// that makes a connected pair with the windows and limits that a test asks for.
//
// The suite measures figures, not times. Its only clock is a failsafe: four minutes
// after a pair was made both ends are closed, so that a test whose call hangs
// fails by that call's error instead of blocking the run.
package transporttest
