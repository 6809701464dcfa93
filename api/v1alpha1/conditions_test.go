// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// constant is one of moqrelay_conditions.go.
type constant struct{ name, value, comment string }

func constants(t *testing.T) []constant {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "moqrelay_conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var list []constant
	for _, decl := range file.Decls {
		group := decl.(*ast.GenDecl)
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			comment := value.Doc.Text()
			if comment == "" {
				comment = group.Doc.Text()
			}
			literal := value.Values[0].(*ast.BasicLit).Value
			list = append(list, constant{value.Names[0].Name, strings.Trim(literal, `"`), comment})
		}
	}
	if len(list) < 50 {
		t.Fatalf("found %d constants, want at least 50", len(list))
	}
	return list
}

func TestEveryReasonSaysWithWhichStatusItIsSet(t *testing.T) {
	status := regexp.MustCompile(`\((True|False|.*(: |, )(True|False|Unknown)|Normal|Warning|any condition, Unknown)[^)]*\)`)
	for _, c := range constants(t) {
		if strings.HasPrefix(c.name, "Condition") {
			continue
		}
		if !strings.HasPrefix(c.comment, c.name+" (") || !status.MatchString(strings.ReplaceAll(c.comment, "\n", " ")) {
			t.Errorf("the comment of %s does not begin with its name and status: %s", c.name, c.comment)
		}
	}
}

func TestEveryConditionTypeAndReasonIsOneWordAndThere(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	seen := map[string]string{}
	for _, c := range constants(t) {
		if !word.MatchString(c.value) {
			t.Errorf("%s is %q, want one word in camel case", c.name, c.value)
		}
		kind, _, _ := strings.Cut(c.name, c.value)
		if kind == c.name || (kind != "Condition" && kind != "Reason" && kind != "Event") {
			t.Errorf("%s has the value %q, which is not its name", c.name, c.value)
		}
		if other := seen[kind+c.value]; other != "" {
			t.Errorf("%s and %s are both %q", c.name, other, c.value)
		}
		seen[kind+c.value] = c.name
	}
}

func TestEveryConditionTypeAndReasonIsUsedByTheController(t *testing.T) {
	files, err := filepath.Glob("../../controllers/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(raw)
	}
	for _, c := range constants(t) {
		// Faults of certificates pass through under the name that preflight gives them.
		if !regexp.MustCompile(`(v1alpha1|preflight)\.` + c.name + `\b`).MatchString(code.String()) {
			t.Errorf("%s is used by no code, so no user can see it", c.name)
		}
	}
}
