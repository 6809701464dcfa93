package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFileLines     = 800
	maxFunctionLines = 80
)

// source is one of our own Go files: not generated, not of another module.
type source struct {
	path  string
	lines int
	file  *ast.File
	set   *token.FileSet
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	root := "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch entry.Name() {
			case "bin", "dist", "node_modules", "testdata", ".git":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		out = append(out, source{path: filepath.ToSlash(name), lines: strings.Count(string(text), "\n"), file: file, set: set})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("only %d files were found", len(out))
	}
	return out
}

func TestFilesAndFunctionsFitTheirLimits(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxFileLines {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, maxFileLines)
		}
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			first, last := s.set.Position(f.Pos()).Line, s.set.Position(f.End()).Line
			if n := last - first + 1; n > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, first, f.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

// banned are calls that hide a wait or a missing context.
var banned = map[string]string{
	"time.Sleep":         "wait for what must happen; in tests use synctest",
	"context.Background": "take a context from the caller",
	"context.TODO":       "take a context from the caller",
}

// mayStartContexts are folders whose programs have no caller.
var mayStartContexts = []string{"cmd/", "hack/", "test/"}

func TestNobodySleepsAndContextsComeFromTheCaller(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "TestMain" {
				return false // it has no caller either
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := callee(call)
			why, isBanned := banned[name]
			if !isBanned || name != "time.Sleep" && startsContexts(s.path) {
				return true
			}
			t.Errorf("%s:%d: %s: %s", s.path, s.set.Position(call.Pos()).Line, name, why)
			return true
		})
	}
}

func startsContexts(path string) bool {
	for _, folder := range mayStartContexts {
		if strings.HasPrefix(path, folder) {
			return true
		}
	}
	return false
}

// callee is "package.Function" for a call of that form.
func callee(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := selector.X.(*ast.Ident); ok {
		return pkg.Name + "." + selector.Sel.Name
	}
	return ""
}

// explained are methods whose name and interface say it all.
var explained = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Is": true, "Len": true, "Less": true, "Swap": true}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !explained[d.Name.Name] {
					t.Errorf("%s:%d: %s has no doc comment", s.path, s.set.Position(d.Pos()).Line, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok && typ.Name.IsExported() && d.Doc == nil && typ.Doc == nil {
						t.Errorf("%s:%d: type %s has no doc comment", s.path, s.set.Position(typ.Pos()).Line, typ.Name.Name)
					}
				}
			}
		}
	}
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch x := typ.(type) {
	case *ast.Ident:
		return x.IsExported()
	case *ast.IndexExpr:
		return x.X.(*ast.Ident).IsExported()
	}
	return true
}
