// Package lint checks what no stock linter does: who starts goroutines, the picture in docs/design.md, and that
// documents show code that compiles and contain no dead links.
package lint

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/zkrecipes/zkrecipes"

//go:generate go test -count=1 -run ^TestDesign_ShowsThePackages$ . -update
var update = flag.Bool("update", false, "draw the packages in docs/design.md again")

// These lines of docs/design.md enclose the picture.
const (
	pictureBegin = "<!-- The picture is drawn from the code: go generate ./internal/testkit/lint -->\n```text\n"
	pictureEnd   = "```\n<!-- end of the picture -->\n"
)

// besides are directories that are not part of the library: programs, and what only tests use.
var besides = []string{"cmd/", "docs/", "examples/", "internal/testkit/", "zktest/"}

// pkg is a package of the library. Packages are named by their directories.
type pkg struct {
	doc           string   // its summary, without "Package p", up to a colon or a comma
	imports, deps []string // of the module: those that it imports, and their dependencies as well
	layer         int      // above the layers of all imports; 0 if not yet known
}

// load returns the packages of the library.
func load(t *testing.T) map[string]*pkg {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}|{{.Doc}}`, "./...")
	list.Dir = "../../.."
	output, err := list.Output()
	require.NoError(t, err)
	dirs := func(paths string) (dirs []string) {
		for path := range strings.FieldsSeq(paths) {
			if dir, ours := strings.CutPrefix(path, module); ours {
				dirs = append(dirs, cmp.Or(strings.TrimPrefix(dir, "/"), "."))
			}
		}
		return dirs
	}
	all := map[string]*pkg{}
	for line := range strings.Lines(string(output)) {
		fields := strings.SplitN(strings.TrimSuffix(line, ".\n"), "|", 4)
		dir := dirs(fields[0])[0]
		if slices.ContainsFunc(besides, func(other string) bool { return strings.HasPrefix(dir+"/", other) }) {
			continue
		}
		doc := strings.TrimPrefix(fields[3], "Package "+path.Base(fields[0])+" ")
		if end := strings.IndexAny(doc, ":,"); end > 0 {
			doc = doc[:end]
		}
		all[dir] = &pkg{doc: doc, imports: dirs(fields[1]), deps: dirs(fields[2])}
	}
	for dir := range all {
		layer(all, dir)
	}
	return all
}

// layer computes the layer of a package and of all below it.
func layer(all map[string]*pkg, dir string) int {
	p := all[dir]
	if p.layer == 0 {
		for _, below := range p.imports {
			p.layer = max(p.layer, layer(all, below))
		}
		p.layer++
	}
	return p.layer
}

// base returns the last element of a package's path.
func base(dir string) string { return path.Base(path.Join(module, dir)) }

// direct lists the imports that none of the other imports depends on.
func (p *pkg) direct(all map[string]*pkg) string {
	var names []string
	for _, below := range p.imports {
		if !slices.ContainsFunc(p.imports, func(other string) bool { return slices.Contains(all[other].deps, below) }) {
			names = append(names, base(below))
		}
	}
	return strings.Join(names, ", ")
}

// draw draws the picture, the highest layer first. Recipes of one layer with the same imports share a row.
func draw(all map[string]*pkg) string {
	type row struct {
		layer             int
		name, doc, direct string
	}
	var rows []row
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		r := row{all[dir].layer, dir, all[dir].doc, all[dir].direct(all)}
		switch path.Dir(dir) {
		case "recipes":
			r.name, r.doc = "recipes", base(dir)
			if same := slices.IndexFunc(rows, func(other row) bool {
				return row{other.layer, other.name, r.doc, other.direct} == r
			}); same >= 0 {
				rows[same].doc += ", " + r.doc
				continue
			}
		case dir:
			r.name = base(dir)
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.layer - a.layer })
	var picture strings.Builder
	for i, r := range rows {
		number := ""
		if i == 0 || rows[i-1].layer != r.layer {
			number = fmt.Sprint(r.layer)
		}
		line := fmt.Sprintf("%2s %-25s %-62s", number, r.name, r.doc)
		if r.direct != "" {
			line += " ▸ " + r.direct
		}
		picture.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return picture.String()
}

// TestDesign_ShowsThePackages: the picture at the beginning of docs/design.md is correct. Each package imports only
// those listed after ▸ and their dependencies.
func TestDesign_ShowsThePackages(t *testing.T) {
	picture := draw(load(t))
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

// TestGoStatements_HaveOwners: these packages join their goroutines. All others start theirs through Session.Go,
// Client.Go or a WaitGroup.
func TestGoStatements_HaveOwners(t *testing.T) {
	owners := []string{"internal/client", "internal/link"}
	for dir := range load(t) {
		files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if !strings.HasSuffix(file, "_test.go") && !slices.Contains(owners, dir) {
				assert.NotRegexp(t, `(?m)^\s*go (func\b|[\w.]+\()`, string(text), file)
			}
		}
	}
}
