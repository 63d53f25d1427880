package lint

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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

//go:generate go test -count=1 -run ^TestHouse_IsAsDrawn$ . -update
var update = flag.Bool("update", false, "draw the house in docs/design.md again")

// These lines of docs/design.md enclose the picture.
const (
	pictureBegin = "<!-- The picture is drawn from the code: go generate ./internal/testkit/lint -->\n```text\n"
	pictureEnd   = "```\n<!-- end of the picture -->\n"
)

// besides are directories that are not part of the library: programs, and what only tests use.
var besides = []string{"cmd", "docs", "examples", "internal/testkit"}

// room is a package: the summary of its documentation, and the other packages that it imports.
type room struct {
	name, what string
	on         []string // packages of the module that it imports
	floor      int      // above all that it imports; 0 if not yet known
}

// rooms returns the packages of the module in tree, by directory.
func rooms(tree fs.FS) (map[string]*room, error) {
	found := map[string]*room{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(besides, name):
			return fs.SkipDir
		case entry.IsDir():
			return enter(tree, name)
		case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		dir := path.Dir(name)
		if found[dir] == nil {
			found[dir] = &room{name: dir}
		}
		return found[dir].read(tree, name)
	})
	for _, r := range found {
		r.climb(found)
	}
	return found, err
}

// read adds one file of the package.
func (r *room) read(tree fs.FS, name string) error {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if file.Doc != nil {
		r.what = whatOf(file)
	}
	for _, spec := range file.Imports {
		what, err := strconv.Unquote(spec.Path.Value)
		if below, ours := strings.CutPrefix(what, module); ours && err == nil {
			r.on = append(r.on, cmp.Or(strings.TrimPrefix(below, "/"), "."))
		}
	}
	slices.Sort(r.on)
	r.on = slices.Compact(r.on)
	return nil
}

// whatOf returns the first sentence of the package comment, without the words "Package p", up to a colon or a comma.
func whatOf(file *ast.File) string {
	sentence := strings.TrimSuffix(new(doc.Package).Synopsis(file.Doc.Text()), ".")
	sentence = strings.TrimPrefix(sentence, "Package "+file.Name.Name+" ")
	if cut := strings.IndexAny(sentence, ":,"); cut > 0 {
		sentence = sentence[:cut]
	}
	return sentence
}

// climb computes the floor: the lowest one above all packages that this one imports.
func (r *room) climb(all map[string]*room) int {
	if r.floor == 0 {
		for _, below := range r.on {
			r.floor = max(r.floor, all[below].climb(all))
		}
		r.floor++
	}
	return r.floor
}

// restsOn reports whether the package imports the other one, directly or indirectly.
func (r *room) restsOn(other string, all map[string]*room) bool {
	return slices.ContainsFunc(r.on, func(below string) bool { return below == other || all[below].restsOn(other, all) })
}

// stands lists the packages that r imports, except those that another of them imports as well.
func (r *room) stands(all map[string]*room) string {
	var names []string
	for _, below := range r.on {
		if !slices.ContainsFunc(r.on, func(other string) bool { return all[other].restsOn(below, all) }) {
			names = append(names, path.Base(title(below)))
		}
	}
	return strings.Join(names, ", ")
}

// title returns the name of a directory in the picture.
func title(dir string) string {
	if dir == "." {
		return path.Base(module)
	}
	return dir
}

// draw draws the picture, the highest floor first. Recipes with the same imports share a row.
func draw(all map[string]*room, belongs func(dir string) bool) string {
	type row struct {
		floor            int
		room, what, upon string
	}
	var rows []row
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		if !belongs(dir) {
			continue
		}
		r := all[dir]
		now := row{r.floor, title(dir), r.what, r.stands(all)}
		if path.Dir(dir) == "recipes" {
			now.room, now.what = "recipes", path.Base(dir)
		}
		same := slices.IndexFunc(rows, func(other row) bool {
			return now.room == "recipes" && other.room == now.room && other.floor == now.floor && other.upon == now.upon
		})
		if same >= 0 {
			rows[same].what += ", " + now.what
			continue
		}
		rows = append(rows, now)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.floor - a.floor })
	var picture strings.Builder
	floor := 0
	for _, r := range rows {
		if r.floor != floor {
			floor = r.floor
			fmt.Fprintf(&picture, "%2d ", floor)
		} else {
			picture.WriteString("   ")
		}
		line := fmt.Sprintf("%-25s %-62s", r.room, r.what)
		if r.upon != "" {
			line += " ▸ " + r.upon
		}
		picture.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return picture.String()
}

func isTest(dir string) bool { return dir == "zktest" || strings.HasPrefix(dir, "zktest/") }

// TestHouse_IsAsDrawn: the picture at the beginning of docs/design.md is correct. Each package imports only those
// listed after ▸ and their dependencies.
func TestHouse_IsAsDrawn(t *testing.T) {
	all, err := rooms(os.DirFS("../../.."))
	require.NoError(t, err)
	picture := draw(all, func(dir string) bool { return !isTest(dir) })
	design, err := os.ReadFile("../../../docs/design.md")
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(design), pictureBegin)
	require.True(t, found)
	drawn, after, found := strings.Cut(rest, pictureEnd)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile("../../../docs/design.md", []byte(before+pictureBegin+picture+pictureEnd+after),
			0o644))
		return
	}
	assert.Equal(t, picture, drawn, "docs/design.md shows another picture: go generate ./internal/testkit/lint")
}

func TestHouse_IsDrawnFromTheCode(t *testing.T) {
	source := func(text string, imports ...string) *fstest.MapFile {
		for _, what := range imports {
			text += fmt.Sprintf("import _ %q\n", module+what)
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	all, err := rooms(fstest.MapFS{
		"a.go":                  source("// Package zkrecipes has words. And more.\npackage zkrecipes\n"),
		"internal/low/a.go":     source("// Package low is low: very.\npackage low\nimport \"fmt\"\n", ""),
		"internal/low/b.go":     source("package low\n"),
		"internal/mid/a.go":     source("// Package mid is in the middle.\npackage mid\n", "", "/internal/low"),
		"recipes/one/a.go":      source("// Package one is one.\npackage one\n", "/internal/low", "/internal/mid"),
		"recipes/two/a.go":      source("// Package two is two.\npackage two\n", "/internal/mid"),
		"recipes/two/a_test.go": source("package two\n", "/recipes/one"),
		"examples/a.go":         source("package main\n", "/recipes/one"),
		"other/go.mod":          {Data: []byte("module x")},
		"other/a.go":            source("package other\n"),
	})
	require.NoError(t, err)
	row := func(floor, room, what, on string) string {
		return strings.TrimRight(fmt.Sprintf("%2s %-25s %-62s ▸ %s", floor, room, what, on), " ▸") + "\n"
	}
	assert.Equal(t, row("4", "recipes", "one, two", "mid")+row("3", "internal/mid", "is in the middle", "low")+
		row("2", "internal/low", "is low", "zkrecipes")+row("1", "zkrecipes", "has words", ""),
		draw(all, func(string) bool { return true }))
	_, err = rooms(fstest.MapFS{"a.go": source("not Go")})
	require.Error(t, err)
}
