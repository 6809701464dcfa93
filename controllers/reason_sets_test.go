package controllers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A finding is a condition with a status and a reason: "Available False NoReadyPods".
type findings map[string]bool

func (f findings) add(condition, status, reason string) {
	f[condition+" "+status+" "+strings.TrimPrefix(reason, "Reason")] = true
}

func parseFile(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

var (
	ofOne  = regexp.MustCompile(`Reasons of (\w+)[,.]`)
	stated = regexp.MustCompile(`^Reason\w+ \(([^)]*)\)`)
	states = []string{"True", "False", "Unknown"}
)

// documented reads which condition has which reason with which status out of the
// comments of the reasons, which are also the page docs/conditions.md.
func documented(t *testing.T) findings {
	t.Helper()
	found := findings{}
	for _, decl := range parseFile(t, "../api/v1alpha1/moqrelay_conditions.go").Decls {
		group := decl.(*ast.GenDecl)
		own := ""
		if match := ofOne.FindStringSubmatch(group.Doc.Text()); match != nil {
			own = match[1]
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			doc := value.Doc.Text()
			if doc == "" {
				doc = group.Doc.Text()
			}
			if match := stated.FindStringSubmatch(strings.ReplaceAll(doc, "\n", " ")); match != nil {
				found.readStates(own, match[1], value.Names[0].Name)
			}
		}
	}
	return found
}

// readStates reads "True", "False, but Ready stays", "Degraded: True; Available,
// Ready: False" or "any condition, Unknown".
func (f findings) readStates(own, text, reason string) {
	for part := range strings.SplitSeq(text, ";") {
		types, status, several := strings.Cut(part, ":")
		if !several {
			types, status = own, part
		}
		if strings.HasPrefix(text, "any condition") {
			// Reconciled alone is known from the first pass on.
			types, status = strings.Join(slices.DeleteFunc(slices.Clone(allConditions), func(kind string) bool { return kind == "Reconciled" }), ","), "Unknown"
		}
		status, _, _ = strings.Cut(strings.TrimSpace(status), ",")
		for kind := range strings.SplitSeq(types, ",") {
			f.add(strings.TrimSpace(kind), status, reason)
		}
	}
}

// judges are the condition functions and their condition, as judge calls them.
func judges(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	ast.Inspect(parseFile(t, "moqrelay_status.go"), func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if call, ok := pair.Value.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok {
				found[name.Name] = strings.TrimPrefix(selected(pair.Key), "Condition")
			}
		}
		return true
	})
	found["readiness"], found["ready"] = "Ready", "Ready"
	if len(found) != len(allConditions)+1 {
		t.Fatalf("found the functions %v, want one for each of %d conditions", found, len(allConditions))
	}
	return found
}

// selected is the Name of v1alpha1.Name or preflight.Name.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// tested reads out of the tables of tests which findings they ask for.
func tested(t *testing.T) findings {
	t.Helper()
	found, functions := findings{}, judges(t)
	files, err := filepath.Glob("condition_*_test.go")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %q (%v), want a file of tests for each condition", files, err)
	}
	for _, file := range files {
		ast.Inspect(parseFile(t, file), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 3 || name(call.Fun) != "runConditionCases" {
				return true
			}
			for _, row := range call.Args[2].(*ast.CompositeLit).Elts {
				found.readRow(functions[name(call.Args[1])], row.(*ast.CompositeLit))
			}
			return true
		})
	}
	return found
}

func name(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func (f findings) readRow(condition string, row *ast.CompositeLit) {
	var status, reason string
	for _, e := range row.Elts {
		pair := e.(*ast.KeyValueExpr)
		switch name(pair.Key) {
		case "status":
			status = strings.TrimSuffix(name(pair.Value), "Status")
		case "reason":
			reason = selected(pair.Value)
		}
	}
	f.add(condition, strings.ToUpper(status[:1])+status[1:], reason)
}

// given reads out of the code which findings a condition's own file makes.
func given(t *testing.T) findings {
	t.Helper()
	found, functions := findings{}, judges(t)
	files, err := filepath.Glob("condition_*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree := parseFile(t, file)
		condition := ""
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && functions[f.Name.Name] != "" {
				condition = functions[f.Name.Name]
			}
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			status := strings.TrimPrefix(name(call.Fun), "is")
			if reason := selected(call.Args[0]); slices.Contains(states, status) && strings.HasPrefix(reason, "Reason") {
				found.add(condition, status, reason)
			}
			return true
		})
	}
	return found
}

// missing are the findings of f that other lacks.
func (f findings) missing(other findings) []string {
	var list []string
	for _, one := range slices.Sorted(maps.Keys(f)) {
		if !other[one] {
			list = append(list, one)
		}
	}
	return list
}

// The reasons of each condition are a closed set: what the comments (and with them
// docs/conditions.md) say, what the code gives, and what tests ask for is the same.
func TestTheReasonsOfEachConditionAreTheSameInCodeDocsAndTests(t *testing.T) {
	docs, tests, code := documented(t), tested(t), given(t)
	if len(docs) < 60 || len(tests) < 60 || len(code) < 40 {
		t.Fatalf("found %d findings in the comments, %d in tests, %d in the code", len(docs), len(tests), len(code))
	}
	for _, one := range docs.missing(tests) {
		t.Errorf("%s: documented, but no test asks for it", one)
	}
	for _, one := range tests.missing(docs) {
		if !strings.HasPrefix(one, "Ready ") { // it copies the reasons of others
			t.Errorf("%s: a test asks for it, but it is not documented", one)
		}
	}
	for _, one := range code.missing(docs) {
		t.Errorf("%s: the code gives it, but it is not documented", one)
	}
}
