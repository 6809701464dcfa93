// Command benchmarks turns results that are kept as JSON into the pages of
// docs/benchmarks: a plot for each table, and the table itself between two marks
// of its page. The prose around it is written by hand.
//
//	benchmarks draw ../../docs/benchmarks           write plots and tables
//	benchmarks check ../../docs/benchmarks          fail where they are not up to date
//	benchmarks peers OURS THEIRS [RESULTS.json]     two outputs of benchmarks side by side
//
// It is a module of its own, so that the chart library is no part of the product.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "benchmarks: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "draw":
		return each(args[1], write)
	case len(args) == 2 && args[0] == "check":
		return each(args[1], same)
	case len(args) >= 3 && len(args) <= 4 && args[0] == "peers":
		return peers(args[1], args[2], args[3:])
	}
	return errors.New("usage: benchmarks draw|check FOLDER, or benchmarks peers OURS THEIRS [RESULTS.json]")
}

// write writes a file.
func write(path string, content []byte) error { return os.WriteFile(path, content, 0o666) }

// same is an error where a file has another content.
func same(path string, content []byte) error {
	is, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(is, content) {
		err = fmt.Errorf("%s is not what its results say: run `make benchmarks-docs`", path)
	}
	return err
}

// each gives every file that follows from the results of a folder to a function.
func each(folder string, put func(path string, content []byte) error) error {
	files, err := filepath.Glob(filepath.Join(folder, "results", "*.json"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no results in %s (%v)", folder, err)
	}
	var all error
	for _, file := range files {
		all = errors.Join(all, page(folder, file, put))
	}
	return all
}

// page makes the plot and the page of one file of results.
func page(folder, file string, put func(path string, content []byte) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	svg, err := r.draw()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	at := filepath.Join(folder, r.Table+".md")
	prose, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	md, err := between(string(prose), r.markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return errors.Join(put(filepath.Join(folder, r.Table+".svg"), svg), put(at, []byte(md)))
}

const (
	begin = "<!-- results: written by make benchmarks-docs -->\n"
	end   = "<!-- end of results -->\n"
)

// between puts text between the two marks of a page.
func between(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("it has no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}
