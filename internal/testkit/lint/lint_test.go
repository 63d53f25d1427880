// Package lint checks what no stock linter does: which package may import which, who starts goroutines, the picture in
// docs/design.md, and that documents show code that compiles and contain no dead links.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/zkrecipes/zkrecipes"

// within reports whether a package is one of the directories, or below one that ends in a slash.
func within(dir string, dirs ...string) bool {
	for _, d := range dirs {
		if dir == strings.TrimSuffix(d, "/") || strings.HasSuffix(d, "/") && strings.HasPrefix(dir, d) {
			return true
		}
	}
	return false
}

func isProgram(dir string) bool {
	return within(dir, "cmd/", "docs/", "examples/", "internal/testkit/testsum")
}

// isKit reports whether only tests import a package.
func isKit(dir string) bool {
	return within(dir, "internal/testkit/")
}

func isLibrary(dir string) bool { return !isProgram(dir) && !isKit(dir) && !within(dir, "zktest/") }

// rules forbid imports of production code. Paths of this module are directories, "." for its root.
var rules = []struct {
	why     string
	from    func(dir string) bool
	forbids func(path string) bool
}{
	{
		"what is below conn does not know it: recipes convert the client",
		func(dir string) bool { return isLibrary(dir) && within(dir, "internal/") },
		func(path string) bool { return within(path, "conn", "recipes/") },
	},
	{
		"the server shares no code with the client, not even the numbers of the protocol, and so no mistake: " +
			"each side writes them down once",
		func(dir string) bool {
			return within(dir, "zktest/") && !within(dir, "zktest/check", "zktest/fakehold")
		},
		func(path string) bool { return within(path, ".", "conn", "internal/", "recipes/", "github.com/") },
	},
	{
		"what is for tests stays out of the library",
		isLibrary,
		func(path string) bool { return isKit(path) || within(path, "testing", "testing/", "zktest/") },
	},
	{
		"the root module depends on go-zookeeper/zk and cenkalti/backoff alone",
		func(dir string) bool { return isLibrary(dir) || isProgram(dir) },
		func(path string) bool {
			first, _, more := strings.Cut(path, "/")
			return more && strings.Contains(first, ".") && !within(path, "github.com/go-zookeeper/zk",
				"github.com/cenkalti/backoff/v4")
		},
	},
	{
		"pauses that grow are made in one place",
		func(dir string) bool { return isLibrary(dir) && dir != "internal/pause" },
		func(path string) bool { return within(path, "github.com/cenkalti/") },
	},
	{
		"fence and sasl stand alone, so that a resource can use them without the client",
		func(dir string) bool { return within(dir, "fence", "sasl") },
		func(path string) bool { return within(path, "conn", "internal/", "recipes/", "github.com/") },
	},
}

// mayStart reports whether a package owns goroutines, and joins them. The other packages start theirs through these.
func mayStart(dir string) bool {
	return within(dir, "internal/client", "internal/link", "zktest") || isKit(dir) || isProgram(dir)
}

// offences lists the violations of the rules in the production code of the module in tree.
func offences(tree fs.FS) (found []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return enter(tree, name)
		case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		more, err := offencesIn(tree, name)
		found = append(found, more...)
		return err
	})
	return found, err
}

// enter skips directories that the go command does not count as part of the module.
func enter(tree fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	_, err := fs.Stat(tree, path.Join(dir, "go.mod"))
	if err == nil || base == "testdata" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	return nil
}

func offencesIn(tree fs.FS, name string) (found []string, err error) {
	dir := path.Dir(name)
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, spec := range file.Imports {
		what, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		ours, _ := strings.CutPrefix(what, module+"/")
		if what == module {
			ours = "."
		}
		for _, r := range rules {
			if r.from(dir) && r.forbids(ours) {
				found = append(found, fmt.Sprintf("%v: imports %s: %s", files.Position(spec.Pos()), what, r.why))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, bare := n.(*ast.GoStmt); bare && !mayStart(dir) {
			found = append(found, fmt.Sprintf("%v: a go statement: who waits for it?", files.Position(n.Pos())))
		}
		return true
	})
	return found, nil
}

func TestModule_KeepsItsRules(t *testing.T) {
	tree := os.DirFS("../../..")
	_, err := fs.Stat(tree, "go.mod")
	require.NoError(t, err, "this is the root of the module")
	found, err := offences(tree)
	require.NoError(t, err)
	assert.Empty(t, strings.Join(found, "\n"))
}

func TestOffences_AreFound(t *testing.T) {
	source := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	importing := func(what string) *fstest.MapFile { return source(fmt.Sprintf("package p\nimport _ %q\n", what)) }
	spawning := source("package p\nfunc f() { go f() }\n")
	found, err := offences(fstest.MapFS{
		"internal/client/ok.go":       spawning,
		"zktest/check/ok.go":          importing(module),
		"newcomer/ok.go":              importing(module + "/recipes/mutex"),
		"recipes/mutex/ok_test.go":    importing(module + "/zktest"),
		"recipes/mutex/testdata/x.go": importing(module + "/zktest"),
		"integration/go.mod":          source("module x"),
		"integration/ok.go":           importing("example.com/anything"),
		"fence/ok.go":                 importing("database/sql"),

		"conn/a.go":              importing(module + "/zktest"),
		"fence/b.go":             importing(module + "/internal/wire"),
		"hold.go":                importing("testing/synctest"),
		"internal/znode/a.go":    importing(module + "/conn"),
		"internal/znode/b.go":    spawning,
		"recipes/mutex/a.go":     importing("example.com/anything"),
		"recipes/mutex/kit.go":   importing(module + "/internal/testkit/need"),
		"zktest/internal/x/a.go": importing(module + "/internal/wire"),
	})
	require.NoError(t, err)
	var places []string
	for _, f := range found {
		places = append(places, strings.SplitN(f, ":", 2)[0])
	}
	assert.Equal(t, []string{
		"conn/a.go", "fence/b.go", "hold.go", "internal/znode/a.go", "internal/znode/b.go", "recipes/mutex/a.go",
		"recipes/mutex/kit.go", "zktest/internal/x/a.go",
	}, places)
	_, err = offences(fstest.MapFS{"hold.go": source("not Go")})
	require.Error(t, err)
}
