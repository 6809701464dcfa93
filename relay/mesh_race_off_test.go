//go:build !race

package relay

// raceOn is true in a build that looks for races.
const raceOn = false
