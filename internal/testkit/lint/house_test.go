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

//go:generate go test -count=1 -run ^TestHouse_IsAsDrawn$ . -update
var update = flag.Bool("update", false, "draw the house in docs/design.md again")

// These lines of docs/design.md enclose the picture.
const (
	pictureBegin = "<!-- The picture is drawn from the code: go generate ./internal/testkit/lint -->\n```text\n"
	pictureEnd   = "```\n<!-- end of the picture -->\n"
)

// besides are directories that are not part of the library: programs, and what only tests use.
var besides = []string{"cmd/", "docs/", "examples/", "internal/testkit/", "zktest/"}

// room is a package: the summary of its documentation, and the other packages that it imports.
type room struct {
	name, what string
	on         []string // packages of the module that it imports
	floor      int      // above all that it imports; 0 if not yet known
}

// rooms returns the packages of the module that belong to the library, by directory.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{.Doc}}`, "./...")
	list.Dir = "../../.."
	output, err := list.Output()
	require.NoError(t, err)
	dirOf := func(path string) string {
		return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, module), "/"), ".")
	}
	found := map[string]*room{}
	for line := range strings.Lines(string(output)) {
		words := strings.SplitN(strings.TrimSpace(line), "|", 3)
		r := &room{name: dirOf(words[0]), what: whatOf(words[0], words[2])}
		if slices.ContainsFunc(besides, func(dir string) bool { return strings.HasPrefix(r.name+"/", dir) }) {
			continue
		}
		for path := range strings.FieldsSeq(words[1]) {
			if strings.HasPrefix(path, module) {
				r.on = append(r.on, dirOf(path))
			}
		}
		found[r.name] = r
	}
	for _, r := range found {
		r.climb(found)
	}
	return found
}

// whatOf returns the synopsis of a package, without the words "Package p", up to a colon or a comma.
func whatOf(name, synopsis string) string {
	sentence := strings.TrimPrefix(strings.TrimSuffix(synopsis, "."), "Package "+path.Base(name)+" ")
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
func draw(all map[string]*room) string {
	type row struct {
		floor            int
		room, what, upon string
	}
	var rows []row
	for _, dir := range slices.Sorted(maps.Keys(all)) {
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

// TestHouse_IsAsDrawn: the picture at the beginning of docs/design.md is correct. Each package imports only those
// listed after ▸ and their dependencies.
func TestHouse_IsAsDrawn(t *testing.T) {
	picture := draw(rooms(t))
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
	for dir := range rooms(t) {
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
