//go:build race

package quic

// raceDetector: sync.Pool drops at random under it, so bytes allocated say nothing.
const raceDetector = true
