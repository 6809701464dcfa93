//go:build !race

package lite

// raceOn is true in a build that looks for races.
const raceOn = false
