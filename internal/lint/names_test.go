package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fieldNames says which name a field of an exported struct has instead, so that all views read alike.
var fieldNames = map[string]string{
	"AsOf":    "embed zkrecipes.Freshness",
	"Current": "embed zkrecipes.Freshness",
}

// strayNames lists the fields that have another name elsewhere, in the packages of the directories.
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
		if instead, ok := wanted[id.Name]; ok {
			found = append(found, fmt.Sprintf("%v: %s: %s", files.Position(id.Pos()), id.Name, instead))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if view, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
			for _, field := range view.Fields.List {
				for _, id := range field.Names {
					stray(id, fieldNames)
				}
			}
		}
		return false
	})
	return found, nil
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
		"a/a.go":      {Data: []byte("package a\ntype View struct{ AsOf int }\ntype own struct{ AsOf int }\n")},
		"a/a_test.go": {Data: []byte("package a\ntype Other struct{ AsOf int }\n")},
	}, "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/a.go:2:19: AsOf: embed zkrecipes.Freshness"}, found)
	_, err = strayNames(fstest.MapFS{"a/a.go": {Data: []byte("not Go")}}, "a")
	require.Error(t, err)
}
