package controllers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// constants are the names of the constants of a file.
func constants(t *testing.T, file string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
		return true
	})
	return names
}

func TestEveryConditionReasonAndEventOfTheAPIIsGiven(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	names := constants(t, "../api/v1alpha1/moqrelay_conditions.go")
	if len(names) < 40 {
		t.Fatalf("found %d constants, want at least 40", len(names))
	}
	for _, name := range names {
		if !strings.Contains(code.String(), "v1alpha1."+name) {
			t.Errorf("v1alpha1.%s is never given", name)
		}
	}
}
