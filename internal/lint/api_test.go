package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// public are the packages whose exported names are for users.
func public(t *testing.T, tree fs.FS) []string {
	t.Helper()
	recipes, err := fs.Glob(tree, "recipes/*")
	require.NoError(t, err)
	require.Greater(t, len(recipes), 8, "the recipes were found")
	return append(recipes, ".", "conn", "fence", "sasl", "zkhttp", "zktest", "zktest/check", "zktest/fakehold")
}

// saysErrors matches a doc that says what a function returns as an error, or whose doc does, or that it returns none.
var saysErrors = regexp.MustCompile(`[eE]rror|\b(is|as|see) \[|returns nil|Unwrap`)

// apiOffences lists what a reader of `go doc` misses, and what ties users to what is not theirs:
//
//   - an option without a default, or a function whose doc says nothing of its errors;
//   - the type any, a type of another module than go-zookeeper, or an alias of a type that is not public.
func apiOffences(tree fs.FS, dirs ...string) (found []string, err error) {
	for _, dir := range dirs {
		names, err := sourcesIn(tree, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			a := api{files: token.NewFileSet()}
			source, err := fs.ReadFile(tree, path.Join(dir, name))
			if err != nil {
				return nil, err
			}
			file, err := parser.ParseFile(a.files, path.Join(dir, name), source, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			a.read(file)
			found = append(found, a.found...)
		}
	}
	return found, nil
}

// api is what one file gives to users.
type api struct {
	files   *token.FileSet
	imports map[string]string // by the name in the file
	found   []string
}

func (a *api) tell(at token.Pos, what string, more ...any) {
	a.found = append(a.found, fmt.Sprintf("%v: ", a.files.Position(at))+fmt.Sprintf(what, more...))
}

func (a *api) read(file *ast.File) {
	a.imports = make(map[string]string)
	for _, spec := range file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser would have told
		}
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		a.imports[name] = from
	}
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			a.function(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.IsExported() {
					a.typ(t)
				}
			}
		}
	}
}

func (a *api) function(f *ast.FuncDecl) {
	if !f.Name.IsExported() || f.Recv != nil && !ast.IsExported(receiver(f)) {
		return
	}
	text := f.Doc.Text()
	a.types(f.Type)
	if f.Type.Results == nil {
		return
	}
	for _, result := range f.Type.Results.List {
		switch id, ok := result.Type.(*ast.Ident); {
		case !ok:
		case id.Name == "error" && !saysErrors.MatchString(text):
			a.tell(f.Pos(), "%s: the doc says no errors", f.Name)
		case strings.HasSuffix(id.Name, "Option") && f.Recv == nil && !strings.Contains(text, "efault"):
			a.tell(f.Pos(), "%s: the doc says no default", f.Name)
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	switch of := t.(type) {
	case *ast.IndexExpr:
		t = of.X
	case *ast.IndexListExpr:
		t = of.X
	}
	return fmt.Sprint(t)
}

func (a *api) typ(t *ast.TypeSpec) {
	if t.Assign.IsValid() && strings.Contains(a.from(t.Type), "/internal/") {
		a.tell(t.Pos(), "%s: declare it here, or go doc hides what it has", t.Name)
	}
	switch of := t.Type.(type) {
	case *ast.StructType:
		for _, field := range of.Fields.List {
			if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
				a.types(field.Type)
			}
		}
	case *ast.InterfaceType, *ast.FuncType:
		if !strings.HasSuffix(t.Name.Name, "Option") { // what an option changes is not public
			a.types(of)
		}
	}
}

// types looks at each type of a part of a declaration, but not at the constraints of its type parameters.
func (a *api) types(part ast.Node) {
	ast.Inspect(part, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			for _, fields := range []*ast.FieldList{n.Params, n.Results} {
				if fields != nil {
					a.types(fields)
				}
			}
			return false
		case *ast.Ident:
			if n.Name == "any" {
				a.tell(n.Pos(), "any: want a type")
			}
		case *ast.SelectorExpr:
			if from := a.from(n); strings.Contains(from, ".") && from != zk && from != module && !strings.HasPrefix(from, module+"/") {
				a.tell(n.Pos(), "%s: a type of another module", from)
			}
			return false
		}
		return true
	})
}

// from returns the package of a type; empty if that is this one.
func (a *api) from(t ast.Expr) string {
	if selected, ok := t.(*ast.SelectorExpr); ok {
		return a.imports[fmt.Sprint(selected.X)]
	}
	return ""
}

func TestAPI_IsForUsers(t *testing.T) {
	tree := os.DirFS("../..")
	found, err := apiOffences(tree, public(t, tree)...)
	require.NoError(t, err)
	assert.Empty(t, strings.Join(found, "\n"))
}

func TestAPI_OffencesAreFound(t *testing.T) {
	found, err := apiOffences(fstest.MapFS{"a/a.go": {Data: []byte(`package a

import (
	"github.com/other/thing"
	"github.com/go-zookeeper/zk"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

type Name = wire.Name

type View struct {
	Stat  zk.Stat
	Other thing.Other
	own   any
}

type view struct{ Other thing.Other }

type Option func(*any)

// WithNothing sets nothing.
func WithNothing() Option { return nil }

// WithDefault sets nothing; default nothing.
func WithDefault() Option { return nil }

// Call calls.
func Call[T any](any) error { return nil }

// Again is [Call].
func (v *View) Again() error { return nil }

func (v *view) Call(any) error { return nil }

func call(any) error { return nil }
`)}}, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"a/a.go:9:6: Name: declare it here, or go doc hides what it has",
		"a/a.go:13:8: github.com/other/thing: a type of another module",
		"a/a.go:22:1: WithNothing: the doc says no default",
		"a/a.go:28:18: any: want a type",
		"a/a.go:28:1: Call: the doc says no errors",
	}, found)
	_, err = apiOffences(fstest.MapFS{"a/a.go": {Data: []byte("not Go")}}, "a")
	require.Error(t, err)
}
