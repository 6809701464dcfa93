//go:build race

package relay

// raceOn is true in a build that looks for races, which is too slow to move
// gigabytes.
const raceOn = true
