package main

import (
	"strings"
	"testing"
)

func TestTheTableHasTheMediansBesideThePublishedFigures(t *testing.T) {
	var ours, peer results
	for _, run := range []string{
		"BenchmarkGroupPaced/1-2  \t 1000 \t 300 ns/op \t 100.0 cpu-ns/op\nBenchmarkGroupPacing/512-2 10 5 ns/op 1.5 pacing-%\n",
		"goos: linux\nBenchmarkGroupPaced/1-2  \t 1000 \t 200 ns/op \t 200.0 cpu-ns/op\nBenchmarkGroupPacing/512-2 10 5 ns/op 0.5 pacing-%\nPASS\n",
		"BenchmarkGroupPaced/1-2  \t 1000 \t 900 ns/op \t 219.0 cpu-ns/op\n",
	} {
		if err := ours.parse(strings.NewReader(run)); err != nil {
			t.Fatal(err)
		}
	}
	if err := peer.parse(strings.NewReader("BenchmarkGroupPaced/1 1000 600 ns/op\n")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ours.table(&out, &peer)
	for _, row := range []string{
		"| GroupPaced/1 | 300 ns | 200 ns | 438 ns | 0.46 | 600 ns | 0.5 |",
		"| GroupPacing/512 | on against off: +1.0 % | | at most +2 % | | | |",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("%s lacks the row %s", out.String(), row)
		}
	}
}

func TestALineThatIsNoFigureIsAnError(t *testing.T) {
	var r results
	if err := r.parse(strings.NewReader("BenchmarkGroupPaced/1 1000 fast ns/op\n")); err == nil {
		t.Error("a figure that is none was taken")
	}
}
