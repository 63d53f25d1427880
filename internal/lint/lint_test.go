// Package lint has rules for this repository that no stock linter knows: which package may start goroutines, which may
// import which, how prose must read, and that documents show code that compiles.
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
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/zkrecipes/zkrecipes"

// rule is what the production code of a package may do. Its tests may do more.
type rule struct {
	// imports from outside the standard library: a module, or a directory of this one ("." is the root package).
	// What is below an entry that ends in a slash is meant as well.
	imports []string
	// goroutines says that go statements are allowed: the package owns goroutines, and joins them.
	goroutines bool
	// tests says that the package is made for tests, so that it may import testing.
	tests bool
}

const (
	zk      = "github.com/go-zookeeper/zk"
	backoff = "github.com/cenkalti/backoff/v4"
)

// rules by directory; a name that ends in a slash means all below it, and the longest match counts. Imports run one
// way: recipes, conn, internal/znode, internal/hold, internal/record, internal/ephemeral, internal/client,
// internal/session, internal/lifetime, internal/link, internal/liveness, internal/wire, the root package, the libraries. What is
// below conn does not know it: recipes convert the client.
var rules = map[string]rule{
	".":     {imports: []string{"internal/grant", zk}},
	"conn":  {imports: []string{".", "internal/lifetime", "internal/client", "internal/session", "sasl", zk, backoff}},
	"fence": {imports: []string{"."}},
	"sasl":  {},
	"internal/bubble": {
		imports: []string{".", "conn", "zktest", "zktest/", "github.com/stretchr/testify/require"}, goroutines: true, tests: true,
	},
	"internal/exclusion": {
		imports:    []string{".", "fence", "internal/bubble", "github.com/stretchr/testify/assert", "github.com/stretchr/testify/require"},
		goroutines: true, tests: true,
	},
	"internal/client":           {imports: []string{".", "internal/lifetime", "internal/link", "internal/session", "internal/trace", "internal/wire", zk}, goroutines: true},
	"internal/ephemeral":        {imports: []string{".", "internal/client", "internal/session", "internal/wire", zk, backoff}},
	"internal/faults":           {},
	"internal/grant":            {},
	"internal/hold":             {imports: []string{".", "internal/ephemeral", "internal/grant", "internal/recipe", "internal/client", "internal/session", "internal/trace", zk, backoff}},
	"internal/lint":             {},
	"internal/lifetime":         {imports: []string{".", "internal/link", "internal/liveness", "internal/trace", "internal/wire", "sasl", zk, backoff}},
	"internal/link":             {imports: []string{"internal/wire", zk}, goroutines: true},
	"internal/playground":       {imports: []string{"internal/playground/world"}},
	"internal/playground/world": {imports: []string{".", "conn", "fence", "internal/wire", "recipes/", "zktest"}},
	"internal/recipe":           {imports: []string{"internal/client"}},
	"internal/liveness":         {imports: []string{"internal/wire"}},
	"internal/record":           {imports: []string{".", "internal/ephemeral", "internal/client", "internal/session", zk}},
	"internal/session":          {imports: []string{".", "internal/lifetime", "internal/link", "internal/wire", zk}},
	"internal/trace":            {imports: []string{"."}},
	"internal/trial": {
		imports:    []string{".", "conn", "internal/client", "internal/session", "zktest", "github.com/stretchr/testify/require", backoff},
		goroutines: true, tests: true,
	},
	"internal/wire":  {imports: []string{".", zk}},
	"internal/year":  {},
	"internal/znode": {imports: []string{".", "internal/ephemeral", "internal/hold", "internal/recipe", "internal/client", "internal/session", zk}},
	"recipes/": {imports: []string{
		".", "conn", "internal/hold", "internal/recipe", "internal/record", "internal/client", "internal/session", "internal/znode", zk, backoff,
	}},
	"recipes/node":  {imports: []string{".", "conn", "internal/recipe", "internal/client", "internal/session", zk, backoff}},
	"recipes/group": {imports: []string{".", "conn", "internal/recipe", "internal/client", "internal/session", "recipes/node", zk}}, // a member is a kept node
	// A registration is a member of the group of its service.
	"recipes/discovery": {imports: []string{".", "conn", "internal/client", "internal/recipe", "internal/session", "recipes/group", "recipes/node", zk}},
	"recipes/shard": {imports: []string{ // members, a leader, locks and a plan: it stands on other recipes
		".", "conn", "internal/recipe", "internal/client", "internal/session", "recipes/election", "recipes/group", "recipes/mutex", "recipes/value", zk, backoff,
	}},
	"zkhttp": {imports: []string{".", "conn", "internal/client", "recipes/election"}},
	"zktest": {imports: []string{"zktest/"}, goroutines: true, tests: true},
	// What is for tests of a holder needs the types of a hold. zktest itself does without, so that its users compile nothing else.
	"zktest/check":    {imports: []string{"."}, tests: true},
	"zktest/fakehold": {imports: []string{".", "internal/grant"}},

	// One way, from a request to the words of the protocol. Only zktest has goroutines.
	"zktest/internal/request":   {imports: []string{"zktest/internal/access", "zktest/internal/ensemble", "zktest/internal/proto", "zktest/internal/tree"}},
	"zktest/internal/ensemble":  {imports: []string{"zktest/internal/access", "zktest/internal/javaset", "zktest/internal/proto", "zktest/internal/tree"}},
	"zktest/internal/tree":      {imports: []string{"zktest/internal/javaset", "zktest/internal/proto"}},
	"zktest/internal/access":    {imports: []string{"zktest/internal/proto"}},
	"zktest/internal/transport": {imports: []string{"zktest/internal/proto"}},
	"zktest/internal/proto":     {},
	"zktest/internal/javaset":   {},
	"zktest/internal/mempipe":   {},

	"cmd/zktestd": {imports: []string{"zktest"}, goroutines: true},
	"docs/":       {imports: []string{".", "conn", "fence", "recipes/", "zkhttp", zk}},
	"examples/":   {imports: []string{".", "conn", "examples/internal/", "fence", "recipes/", "zkhttp", "zktest", zk}, goroutines: true},
}

func ruleOf(dir string) (rule, bool) {
	if r, ok := rules[dir]; ok {
		return r, true
	}
	for above := path.Dir(dir); above != "."; above = path.Dir(above) {
		if r, ok := rules[above+"/"]; ok {
			return r, true
		}
	}
	return rule{}, false
}

// allows reports whether the rule allows to import what; standard library packages have no dot in their first element.
func (r rule) allows(what string) bool {
	first, _, _ := strings.Cut(what, "/")
	if !strings.Contains(first, ".") {
		return r.tests || (first != "testing")
	}
	if what == module {
		what = "."
	} else if below, ok := strings.CutPrefix(what, module+"/"); ok {
		what = below
	}
	return slices.ContainsFunc(r.imports, func(allowed string) bool {
		return what == allowed || (strings.HasSuffix(allowed, "/") && strings.HasPrefix(what, allowed))
	})
}

// offences lists what the production code of the module in tree does against the rules.
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

// enter skips what the go command does not count to the module.
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
	r, ok := ruleOf(path.Dir(name))
	if !ok {
		return []string{name + ": no rule says what this package may do"}, nil
	}
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
		if !r.allows(what) {
			found = append(found, fmt.Sprintf("%v: imports %s", files.Position(spec.Pos()), what))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if _, bare := n.(*ast.GoStmt); bare && !r.goroutines {
			found = append(found, fmt.Sprintf("%v: a go statement: who waits for it?", files.Position(n.Pos())))
		}
		return true
	})
	return found, nil
}

func TestModule_KeepsItsRules(t *testing.T) {
	tree := os.DirFS("../..")
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
	tree := fstest.MapFS{
		"internal/client/ok.go":       spawning,
		"zktest/check/ok.go":          importing("testing"),
		"recipes/mutex/ok.go":         importing(module + "/internal/znode"),
		"recipes/mutex/ok_test.go":    importing(module + "/zktest"),
		"recipes/mutex/testdata/x.go": importing(module + "/zktest"),
		"integration/go.mod":          source("module x"),
		"integration/ok.go":           importing("example.com/anything"),
		"examples/leader/ok.go":       importing(module + "/recipes/election"),
		"fence/ok.go":                 importing(module),
		"fence/sql.go":                importing("database/sql"),

		"hold.go":                    importing("testing/synctest"),
		"conn/a.go":                  importing(module + "/recipes/mutex"),
		"conn/b.go":                  importing(module + "/internal/znode"),
		"internal/session/a.go":      importing(module + "/conn"),
		"internal/wire/a.go":         importing(module + "/internal/session"),
		"fence/a.go":                 importing(module + "/zktest/check"),
		"fence/b.go":                 importing(zk),
		"internal/znode/a.go":        importing(module + "/recipes/mutex"),
		"internal/znode/b.go":        spawning,
		"internal/znode/c.go":        importing(module + "/conn"),
		"newcomer/a.go":              source("package newcomer"),
		"recipes/mutex/a.go":         importing("github.com/stretchr/testify/assert"),
		"recipes/mutex/b_windows.go": spawning,
		"recipes/rwlock/a.go":        importing(module + "/recipes/mutex"),
		"zktest/a.go":                importing(module + "/conn"),
		"zktest/b.go":                importing(zk),
	}
	found, err := offences(tree)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"conn/a.go:2:8: imports " + module + "/recipes/mutex",
		"conn/b.go:2:8: imports " + module + "/internal/znode",
		"fence/a.go:2:8: imports " + module + "/zktest/check",
		"fence/b.go:2:8: imports " + zk,
		"hold.go:2:8: imports testing/synctest",
		"internal/session/a.go:2:8: imports " + module + "/conn",
		"internal/wire/a.go:2:8: imports " + module + "/internal/session",
		"internal/znode/a.go:2:8: imports " + module + "/recipes/mutex",
		"internal/znode/b.go:2:12: a go statement: who waits for it?",
		"internal/znode/c.go:2:8: imports " + module + "/conn",
		"newcomer/a.go: no rule says what this package may do",
		"recipes/mutex/a.go:2:8: imports github.com/stretchr/testify/assert",
		"recipes/mutex/b_windows.go:2:12: a go statement: who waits for it?",
		"recipes/rwlock/a.go:2:8: imports " + module + "/recipes/mutex",
		"zktest/a.go:2:8: imports " + module + "/conn",
		"zktest/b.go:2:8: imports " + zk,
	}, found)
	_, err = offences(fstest.MapFS{"hold.go": source("not Go")})
	require.Error(t, err)
}
