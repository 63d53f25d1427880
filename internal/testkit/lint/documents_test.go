package lint

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Documents show code that compiles, and their links resolve.

var (
	goBlock   = regexp.MustCompile("(?ms)^[ ]*```go\n(.*?)^[ ]*```")
	target    = regexp.MustCompile(`\]\(([^)\s]+)\)|<img[^>]* src="([^"]+)"`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	document  = regexp.MustCompile(`[\w./-]+\.md\b`)
	testName  = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	selection = regexp.MustCompile("go test [^`]*-run[ =]'?([^/' `]+)")
	part      = regexp.MustCompile(`\w+`)
	noAnchor  = regexp.MustCompile(`[^\w\- ]`)
	blankLine = regexp.MustCompile(`\n{2,}`)
)

// bare returns the lines of code without indentation and blank lines, so that a quotation may be indented differently.
func bare(code string) string {
	var lines []string
	for l := range strings.SplitSeq(code, "\n") {
		lines = append(lines, strings.TrimSpace(l))
	}
	return blankLine.ReplaceAllString("\n"+strings.Join(lines, "\n")+"\n", "\n")
}

// anchors returns the anchors that a link into the document may use.
func anchors(markdown string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(markdown, -1) {
		found[strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-")] = true
	}
	return found
}

// isForeign reports whether a directory holds what was built or fetched, such as the sources of another library that
// the tests need.
func isForeign(dir string) bool {
	base := path.Base(dir)
	return dir != "." && (base == "bin" || base[0] == '.' && base != ".github")
}

// texts returns the documents, the Go files, and the files of make and of modules in the tree, by name.
func texts(tree fs.FS) (found map[string]string, err error) {
	found = map[string]string{}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir() && isForeign(name):
			return fs.SkipDir
		case err != nil || entry.IsDir():
			return err
		}
		if !slices.Contains([]string{".md", ".go", ".mod"}, path.Ext(name)) && name != "Makefile" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		found[name] = string(text)
		return err
	})
	return found, err
}

// named returns the names with a suffix, in order.
func named(texts map[string]string, suffix string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// brokenDocuments lists Markdown code that no Go file of the tree contains, names of tests that do not exist, links
// that lead nowhere, and documents that comments mention and the tree lacks.
func brokenDocuments(tree fs.FS) (broken []string, err error) {
	texts, err := texts(tree)
	if err != nil {
		return nil, err
	}
	var code, tests strings.Builder
	for _, name := range named(texts, ".go") {
		code.WriteString(bare(texts[name]))
		for _, f := range testFunc.FindAllStringSubmatch(texts[name], -1) {
			tests.WriteString("\n" + f[1])
		}
		said, err := comments(name, texts[name])
		if err != nil {
			return nil, err
		}
		for _, named := range document.FindAllString(said, -1) {
			if _, ok := texts[named]; !ok {
				broken = append(broken, fmt.Sprintf("%s: names %s, which is not in the repository", name, named))
			}
		}
	}
	for _, name := range named(texts, ".md") {
		for _, test := range testName.FindAllString(texts[name], -1) {
			if !strings.Contains(tests.String(), "\n"+test) {
				broken = append(broken, fmt.Sprintf("%s: no test has a name that begins with %s", name, test))
			}
		}
		for _, pattern := range selection.FindAllStringSubmatch(texts[name], -1) { // go test succeeds if none matches
			for _, part := range part.FindAllString(pattern[1], -1) {
				if !strings.Contains(tests.String(), part) {
					broken = append(broken, fmt.Sprintf("%s: go test -run: no test has %s in its name", name, part))
				}
			}
		}
		for _, block := range goBlock.FindAllStringSubmatch(texts[name], -1) {
			if !strings.Contains(code.String(), bare(block[1])) {
				broken = append(broken, fmt.Sprintf("%s: no Go file has this code:\n%s", name, block[1]))
			}
		}
		for _, link := range target.FindAllStringSubmatch(texts[name], -1) {
			to, anchor, _ := strings.Cut(link[1]+link[2], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			file := name
			if to != "" {
				file = path.Join(path.Dir(name), to)
			}
			if _, err := fs.Stat(tree, file); err != nil {
				broken = append(broken, fmt.Sprintf("%s: the link to %s leads nowhere", name, to))
			} else if anchor != "" && !anchors(texts[file])[anchor] {
				broken = append(broken, fmt.Sprintf("%s: %s has no heading #%s", name, file, anchor))
			}
		}
	}
	return broken, nil
}

// comments returns the text of all comments in a Go file.
func comments(name, source string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var found strings.Builder
	for _, group := range file.Comments {
		found.WriteString(group.Text())
	}
	return found.String(), nil
}

func TestDocuments_ShowRealCodeAndLinkToWhatIsThere(t *testing.T) {
	broken, err := brokenDocuments(os.DirFS("../../.."))
	require.NoError(t, err)
	assert.Empty(t, strings.Join(broken, "\n"))
}

func TestDocuments_BrokenOnesAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	broken, err := brokenDocuments(fstest.MapFS{
		"a.go": file(
			"package p\n\nfunc f() {\n\tg() // see docs/a.md, docs/lost.md\n\n\th()\n}\n\nfunc TestReal_Thing() {}\n"),
		"docs/a.md": file(
			"# The head: one\n\n  ```go\n  g() // see docs/a.md, docs/lost.md\n  h()\n  ```\n[b](b.md) [up](../a.go) [here](#the-head-one) [out](https://x.org/y)\n"),
		"docs/b.md":    file("```go\ng()\nh()\n```\nTestReal TestUnreal `go test ./a -run 'Thing\\|Nothing/x'` [a](a.md#the-head) [c](c.md) <img src=\"p.svg\">\n"),
		"docs/pic.svg": file("<svg/>"),
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"a.go: names docs/lost.md, which is not in the repository",
		"docs/b.md: no test has a name that begins with TestUnreal",
		"docs/b.md: go test -run: no test has Nothing in its name",
		"docs/b.md: no Go file has this code:\ng()\nh()\n",
		"docs/b.md: docs/a.md has no heading #the-head",
		"docs/b.md: the link to c.md leads nowhere",
		"docs/b.md: the link to p.svg leads nowhere",
	}, broken)
}
