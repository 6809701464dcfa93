// Copyright The moq-relay-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var updateDocs = flag.Bool("update", false, "rewrite docs/conditions.md")

const conditionsPage = "../../docs/conditions.md"

const conditionsHead = `# Conditions and events

What a condition on a MoQRelay means, who can change it, and how. ` + "`kubectl get moqrelays`" + ` shows Ready;
` + "`kubectl describe moqrelay NAME`" + ` shows all of them with their messages, which name the pod, the node and the next step.
Made from the comments in ` + "`api/v1alpha1/moqrelay_conditions.go`" + ` by ` + "`go test ./api/v1alpha1 -run Page -update`" + `.
`

// The page is the comments of the constants, so that neither can be right alone.
func TestTheConditionsPageSaysWhatTheConstantsSay(t *testing.T) {
	want := conditionsHead + conditionTables(t)
	if *updateDocs {
		if err := os.WriteFile(conditionsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(conditionsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/conditions.md is out of date: run go test ./api/v1alpha1 -run Page -update")
	}
	if rows := strings.Count(want, "\n| `"); rows < 50 {
		t.Errorf("the page has %d rows, want one for each of more than 50 names", rows)
	}
}

func conditionTables(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "moqrelay_conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		title, _, _ := strings.Cut(strings.TrimSpace(group.Doc.Text()), ".")
		if len(group.Specs) == 1 {
			title = "Reason of Ready"
		}
		fmt.Fprintf(&out, "\n## %s\n\n| Name | When, and what to do |\n|---|---|\n", oneLine(title))
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			doc := value.Doc.Text()
			if len(group.Specs) == 1 {
				doc = group.Doc.Text()
			}
			name := strings.Trim(value.Values[0].(*ast.BasicLit).Value, `"`)
			text := strings.TrimPrefix(oneLine(doc), value.Names[0].Name+" ")
			fmt.Fprintf(&out, "| `%s` | %s |\n", name, strings.ReplaceAll(text, "|", `\|`))
		}
	}
	return out.String()
}

var spaces = regexp.MustCompile(`\s+`)

func oneLine(s string) string { return spaces.ReplaceAllString(strings.TrimSpace(s), " ") }
