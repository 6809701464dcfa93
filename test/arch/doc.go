// Package arch holds rules about the code itself as tests: who may import whom,
// and how long files and functions may get. Run it with -count=1, because the
// test cache does not see what "go list" read.
package arch
