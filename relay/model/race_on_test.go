//go:build race

package model

// raceDetector multiplies what memory and time cost.
const raceDetector = true
