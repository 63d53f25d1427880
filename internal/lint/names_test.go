package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fieldNames says what a field of an exported struct is to be instead, so that all views read alike.
var fieldNames = map[string]string{
	"AsOf":    "embed zkrecipes.Freshness",
	"Current": "embed zkrecipes.Freshness",
	"None":    "Exists",
	"Present": "Exists",
}

// methodNames says which name a method of an exported type has instead.
var methodNames = map[string]string{
	"Candidates": "Queue",
	"Changes":    "Watch",
	"Follow":     "Watch",
	"Leave":      "Close, or Release of a hold",
	"Observe":    "Watch",
	"Resign":     "Release",
	"Stop":       "Close, or Release of a hold",
}

// ownNames are methods that have such a name because they do something else.
var ownNames = []string{
	"recipes/barrier/double.go: Leave", // it waits until the others have left, which Release does not
	"recipes/shard/member.go: Leave",   // it hands shards over while it works on others, and then Run returns
}

// strayNames lists the fields and methods that have another name elsewhere, in the packages of the directories, and each Watch
// that yields no errors.
func strayNames(tree fs.FS, dirs ...string) (found []string, err error) {
	for _, dir := range dirs {
		names, err := sourcesIn(tree, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			more, err := strayNamesIn(tree, path.Join(dir, name))
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

func strayNamesIn(tree fs.FS, name string) (found []string, err error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	stray := func(id *ast.Ident, wanted map[string]string) {
		if instead, ok := wanted[id.Name]; ok && !slices.Contains(ownNames, name+": "+id.Name) {
			found = append(found, fmt.Sprintf("%v: %s: %s", files.Position(id.Pos()), id.Name, instead))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if view, ok := n.Type.(*ast.StructType); ok && n.Name.IsExported() {
				for _, field := range view.Fields.List {
					for _, id := range field.Names {
						stray(id, fieldNames)
					}
				}
			}
			return false
		case *ast.FuncDecl:
			if n.Recv == nil {
				return false
			}
			stray(n.Name, methodNames)
			if n.Name.Name == "Watch" && !yieldsErrors(n.Type) {
				found = append(found, fmt.Sprintf("%v: Watch: return an iter.Seq2 of views and errors", files.Position(n.Name.Pos())))
			}
			return false
		}
		return true
	})
	return found, nil
}

// yieldsErrors reports whether a function returns an iter.Seq2 whose second type is error.
func yieldsErrors(f *ast.FuncType) bool {
	if f.Results == nil || len(f.Results.List) != 1 {
		return false
	}
	seq, ok := f.Results.List[0].Type.(*ast.IndexListExpr)
	return ok && len(seq.Indices) == 2 && fmt.Sprint(seq.X) == "&{iter Seq2}" && fmt.Sprint(seq.Indices[1]) == "error"
}

func TestViews_HaveTheSameNames(t *testing.T) {
	tree := os.DirFS("../..")
	dirs, err := fs.Glob(tree, "recipes/*")
	require.NoError(t, err)
	require.Greater(t, len(dirs), 8, "the recipes were found")
	found, err := strayNames(tree, append(dirs, "conn")...)
	require.NoError(t, err)
	assert.Empty(t, strings.Join(found, "\n"))
}

func TestStrayNames_AreFound(t *testing.T) {
	found, err := strayNames(fstest.MapFS{
		"a/a.go": {Data: []byte("package a\ntype View struct{ AsOf int }\ntype own struct{ AsOf int }\n" +
			"func (View) Changes() {}\nfunc Changes() {}\nfunc (View) Watch() iter.Seq2[View, error] {}\nfunc (View) Watch() iter.Seq[View] {}\n")},
		"a/a_test.go": {Data: []byte("package a\ntype Other struct{ AsOf int }\n")},
	}, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"a/a.go:2:19: AsOf: embed zkrecipes.Freshness", "a/a.go:4:13: Changes: Watch",
		"a/a.go:7:13: Watch: return an iter.Seq2 of views and errors",
	}, found)
	_, err = strayNames(fstest.MapFS{"a/a.go": {Data: []byte("not Go")}}, "a")
	require.Error(t, err)
}
