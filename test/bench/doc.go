//go:build bench

// Command bench puts a relay process on loopback under load and prints what it
// cost: memory, goroutines, allocations and processor time for each viewer.
//
//	go build -o bin/moq-relay ./cmd/relay
//	go run -tags bench ./test/bench -relay bin/moq-relay
//
// Every row is a fresh relay process. A publisher writes one track; viewers over
// native QUIC and moq-lite-06 read it; some may take nothing. The figures of the
// relay are its own: /proc for memory and processor time, /metrics for the rest.
package main
