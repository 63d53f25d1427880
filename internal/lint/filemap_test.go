package lint

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// moving lists the packages whose files are being rearranged, so that the map may be ahead of them. The list may only
// shrink.
var moving = []string{}

var (
	mapHeading = regexp.MustCompile("^### `([^`]+)`$")
	mapFile    = regexp.MustCompile("`([a-z_]+\\.go)`")
)

// fileMap returns the files that the map in a document lists, by directory.
func fileMap(markdown string) map[string][]string {
	files := map[string][]string{}
	dir := ""
	for l := range strings.SplitSeq(markdown, "\n") {
		switch heading := mapHeading.FindStringSubmatch(l); {
		case heading != nil:
			dir = heading[1]
		case strings.HasPrefix(l, "#"):
			dir = ""
		case dir != "" && strings.HasPrefix(l, "| `"):
			cell, _, _ := strings.Cut(l[2:], "|")
			for _, f := range mapFile.FindAllStringSubmatch(cell, -1) {
				files[dir] = append(files[dir], f[1])
			}
		}
	}
	return files
}

// sourcesIn returns the production files of a package.
func sourcesIn(tree fs.FS, dir string) ([]string, error) {
	names, err := fs.Glob(tree, path.Join(dir, "*.go"))
	sources := []string{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			sources = append(sources, path.Base(name))
		}
	}
	return sources, err
}

func TestFileMap_NamesEveryFileOfItsPackages(t *testing.T) {
	tree := os.DirFS("../..")
	design, err := fs.ReadFile(tree, "docs/design.md")
	require.NoError(t, err)
	mapped := fileMap(string(design))
	require.Contains(t, mapped, "internal/znode", "the map was read")
	for dir, files := range mapped {
		if slices.Contains(moving, dir) {
			continue
		}
		sources, err := sourcesIn(tree, dir)
		require.NoError(t, err)
		assert.ElementsMatch(t, sources, files, dir)
	}
}

// A newcomer looks for a package in the map, so none may be missing: it has a heading or a row, or a directory above it has.
func TestFileMap_NamesEveryPackage(t *testing.T) {
	tree := os.DirFS("../..")
	design, err := fs.ReadFile(tree, "docs/design.md")
	require.NoError(t, err)
	_, files, found := strings.Cut(string(design), "\n## File map\n")
	require.True(t, found)
	packages := 0
	require.NoError(t, fs.WalkDir(tree, ".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if base := path.Base(dir); base != "." && strings.HasPrefix(base, ".") || base == "testdata" {
			return fs.SkipDir
		}
		sources, err := sourcesIn(tree, dir)
		if err != nil || len(sources) == 0 {
			return err
		}
		packages++
		for at := dir; ; at = path.Dir(at) {
			if strings.Contains(files, "`"+at+"`") {
				return nil
			}
			if path.Dir(at) == "." {
				t.Errorf("docs/design.md: the file map does not name %s", dir)
				return nil
			}
		}
	}))
	require.Greater(t, packages, 20, "the packages were found")
}

func TestFileMap_IsRead(t *testing.T) {
	assert.Equal(t, map[string][]string{".": {"a.go"}, "x/y": {"b.go", "c.go"}}, fileMap(
		"### `.`\n\n| file | concept |\n| --- | --- |\n| `a.go` | see `other.go` |\n\n### `x/y`\n| `b.go`, `c.go` | d |\n## End\n| `e.go` | f |\n"))
}

// TestIntegration_ReadmeNamesEveryFolder: a reader looks there for a folder.
func TestIntegration_ReadmeNamesEveryFolder(t *testing.T) {
	tree := os.DirFS("../../integration")
	readme, err := fs.ReadFile(tree, "README.md")
	require.NoError(t, err)
	var named, folders []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(string(readme), -1) {
		named = append(named, row[1])
	}
	entries, err := fs.ReadDir(tree, ".")
	require.NoError(t, err)
	for _, e := range entries {
		inside, _ := fs.Glob(tree, e.Name()+"/*") // a folder that was moved may be left empty
		if len(inside) > 0 && e.Name() != "reports" {
			folders = append(folders, e.Name())
		}
	}
	assert.ElementsMatch(t, folders, named)
}
