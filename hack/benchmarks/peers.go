package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// peers prints what two files of benchmark output have in common, and keeps it in
// a file of results where one is named; the environment says the rest of that file.
func peers(ours, theirs string, keep []string) error {
	left, err := medians(ours)
	if err != nil {
		return err
	}
	right, err := medians(theirs)
	if err != nil {
		return err
	}
	r := results{
		Table: "model", Title: "The model, against the moq-net crate's", Command: "make peer-bench",
		Commit: os.Getenv("COMMIT"), Date: os.Getenv("DATE"), Machine: os.Getenv("MACHINE"), Load: os.Getenv("LOAD"),
	}
	fmt.Printf("%-50s %12s %12s  ours/theirs\n", "", "ours", "theirs")
	for _, name := range right.names {
		if _, ok := left.values[name]; !ok {
			continue
		}
		b := benchmark{strings.TrimPrefix(name, "Benchmark"), median(left.values[name]), median(right.values[name])}
		fmt.Printf("%-50s %12s %12s  %.2f\n", b.Name, nanos(b.Ours), nanos(b.Theirs), b.Ours/b.Theirs)
		r.Benchmarks = append(r.Benchmarks, b)
	}
	if len(r.Benchmarks) == 0 {
		return fmt.Errorf("%s and %s have no benchmark in common", ours, theirs)
	}
	if len(keep) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(keep[0], append(text, '\n'), 0o666)
}

// measured are the times of benchmarks, in the order in which they came first.
type measured struct {
	names  []string
	values map[string][]float64
}

// medians reads the output of `go test -bench`, or of a program that prints the same.
func medians(file string) (m measured, err error) {
	text, err := os.ReadFile(file)
	m.values = map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") || fields[3] != "ns/op" {
			continue
		}
		name := fields[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 { // GOMAXPROCS, which is missing where it is 1
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		n, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			continue
		}
		if m.values[name] == nil {
			m.names = append(m.names, name)
		}
		m.values[name] = append(m.values[name], n)
	}
	return m, err
}

// median of at least one value.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
