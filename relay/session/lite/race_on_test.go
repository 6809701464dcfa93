//go:build race

package lite

// raceOn is true in a build that looks for races: it is slow, and pools forget
// on purpose.
const raceOn = true
