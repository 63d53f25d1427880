package lint

import (
	"cmp"
	"fmt"
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

// The two limits on prose, as shares of the sentences in one unit (see unitOf).
const (
	maxVague = 0.02 // sentences that hide their actor
	maxLong  = 0.06 // sentences of more than longSentence words
)

// unenforced lists the units whose prose is not yet held to the limits. The list may only shrink.
var unenforced = []string{}

// unitOf names the directory that a file is counted with: its own, but at most two levels deep.
func unitOf(file string) string {
	parts := strings.Split(path.Dir(file), "/")
	return path.Join(parts[:min(len(parts), 2)]...)
}

// count is what the sentences of one unit amount to.
type count struct {
	sentences   int
	vague, long []sentence
}

func (c count) String() string {
	share := func(part []sentence) float64 { return 100 * float64(len(part)) / float64(c.sentences) }
	return fmt.Sprintf("%d sentences, %.1f %% hide their actor, %.1f %% have more than %d words",
		c.sentences, share(c.vague), share(c.long), longSentence)
}

func (c count) withinLimits() bool {
	all := float64(c.sentences)
	return float64(len(c.vague)) <= maxVague*all && float64(len(c.long)) <= maxLong*all
}

// worst lists every sentence that hides its actor, and then the long ones, the longest first.
func (c count) worst() string {
	var lines []string
	for _, s := range c.vague {
		lines = append(lines, fmt.Sprintf("  %s hides its actor (%s): %s", s.place, s.vagueWord(), s.text))
	}
	slices.SortStableFunc(c.long, func(a, b sentence) int { return cmp.Compare(b.words, a.words) })
	for _, s := range c.long {
		lines = append(lines, fmt.Sprintf("  %s has %d words: %s", s.place, s.words, s.text))
	}
	return strings.Join(lines, "\n")
}

// countProse counts the sentences in the Go comments and Markdown files of tree, by unit.
func countProse(tree fs.FS) (map[string]count, error) {
	units := map[string]count{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (base == "testdata" || base == "bin" || base[0] == '.' && base != ".github"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		var found []sentence
		switch path.Ext(name) {
		case ".go":
			found, err = goSentences(tree, name)
		case ".md":
			found, err = markdownSentences(tree, name)
		}
		if err != nil || len(found) == 0 {
			return err
		}
		c := units[unitOf(name)]
		for _, s := range found {
			c.sentences++
			if s.vagueWord() != "" {
				c.vague = append(c.vague, s)
			}
			if s.words > longSentence {
				c.long = append(c.long, s)
			}
		}
		units[unitOf(name)] = c
		return nil
	})
	return units, err
}

func TestProse_NamesItsActorsInShortSentences(t *testing.T) {
	units, err := countProse(os.DirFS("../.."))
	require.NoError(t, err)
	require.Greater(t, len(units), 10, "the sources were found")
	var all count
	for unit, c := range units {
		t.Run(strings.ReplaceAll(unit, "/", "-"), func(t *testing.T) {
			t.Log(unit+":", c)
			if !c.withinLimits() && !slices.Contains(unenforced, unit) {
				t.Errorf("at most %.0f %% may hide their actor and %.0f %% be long:\n%s", 100*maxVague, 100*maxLong, c.worst())
			}
		})
		all.sentences += c.sentences
		all.vague = append(all.vague, c.vague...)
		all.long = append(all.long, c.long...)
	}
	t.Log("everything:", all)
	for _, unit := range unenforced {
		assert.Contains(t, units, unit, "unenforced names a directory that is not there")
	}
}

func TestProse_OffencesAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	long := strings.Repeat("word ", longSentence) + "more."
	units, err := countProse(fstest.MapFS{
		"a.go":                   file("// Package p\n// tells whoever\n// reads it. It ends.\npackage p\n\nvar x int // read by\n\n// the one\n// who waits\nvar y int\n"),
		"docs/guides/deep/x.md":  file("# A title of\n\n" + long + "\n"),
		"docs/y.md":              file("This is short. Nobody waits here.\n"),
		"docs/testdata/z.md":     file("Nobody counts this file.\n"),
		"integration/curator/go": file("Nobody counts this file.\n"),
	})
	require.NoError(t, err)
	places := func(list []sentence) (places []string) {
		for _, s := range list {
			places = append(places, s.place)
		}
		return places
	}
	require.Len(t, units, 3)
	assert.Equal(t, []string{"a.go:1", "a.go:8"}, places(units["."].vague), "also across lines")
	assert.Equal(t, []string{"docs/guides/deep/x.md:3"}, places(units["docs/guides"].long))
	assert.Equal(t, []string{"docs/y.md:1"}, places(units["docs"].vague))
	assert.Equal(t, 2, units["docs"].sentences)
	assert.False(t, units["docs"].withinLimits())
	assert.Contains(t, units["docs"].worst(), "docs/y.md:1 hides its actor (Nobody): Nobody waits here.")
	assert.Contains(t, units["docs/guides"].worst(), "has 31 words")
	assert.True(t, count{sentences: 50, vague: make([]sentence, 1), long: make([]sentence, 3)}.withinLimits())
	assert.False(t, count{sentences: 50, long: make([]sentence, 4)}.withinLimits())
}

func TestSplit_EndsSentencesWhereReadersDo(t *testing.T) {
	for text, want := range map[string][]string{
		"One thing happens. Then another thing happens! Is it so? Yes it is.": {
			"One thing happens.", "Then another thing happens!", "Is it so?", "Yes it is.",
		},
		"ZooKeeper 3.8.4 has it, e.g. Debian does. So has 3.9.": {"ZooKeeper 3.8.4 has it, e.g. Debian does.", "So has 3.9."},
		"Call conn.Dial first. conn.Dial returns at once.":      {"Call conn.Dial first.", "conn.Dial returns at once."},
		"It said \"no more.\" The caller waits (for long.) And then not.": {
			"It said \"no more.\"", "The caller waits (for long.)", "And then not.",
		},
		"Wait... it goes on and on":                   {"Wait... it goes on and on"},
		"See `a. B c` and https://x.y/z.A. So it is.": {"See code and url.", "So it is."},
		"too short": nil,
		"A list of three, i.e. A, B and C etc. and more":            {"A list of three, i.e. A, B and C etc. and more"},
		"The [first page](docs/a.md) and ![a picture](b.svg) of it": {"The first page and a picture of it"},
	} {
		var got []string
		for _, s := range split("x", paragraph{{1, text}}) {
			got = append(got, s.text)
		}
		assert.Equal(t, want, got, text)
	}
}

func TestMarkdown_OnlyProseIsCounted(t *testing.T) {
	text := `# A title that no rule counts

First comes a paragraph
that has two lines.

` + "```go\n// nobody in code. At all here.\n```\n" + `
* An item of a list
  goes on here
* Another item follows it
  1. A numbered item below

| a head cell here | b |
| --- | ---: |
| the cell has words | Two sentences here. The second one ends. |

    indented code is not counted

> A quote is prose too.

<p>
<!-- a comment of HTML is not counted -->
[link]: https://example.com "A title is not counted"
`
	found, err := markdownSentences(fstest.MapFS{"x.md": {Data: []byte(text)}}, "x.md")
	require.NoError(t, err)
	var got []string
	for _, s := range found {
		got = append(got, s.place+" "+s.text)
	}
	assert.Equal(t, []string{
		"x.md:3 First comes a paragraph that has two lines.",
		"x.md:10 An item of a list goes on here",
		"x.md:12 Another item follows it",
		"x.md:13 A numbered item below",
		"x.md:15 a head cell here",
		"x.md:17 the cell has words",
		"x.md:17 Two sentences here.",
		"x.md:17 The second one ends.",
		"x.md:21 A quote is prose too.",
	}, got)
}

func TestGo_OnlyProseIsCounted(t *testing.T) {
	text := `// Copyright 2026 The authors, all of them. Licensed under some License here.

//go:build linux

// Package p does one thing.
//
//	code.Block(is, not, counted)
//
// # A heading is not counted
//
//   - the first item of it
//     goes on here
//   - the second item of it
//
// [Link]: https://example.com/a/b/c
package p

import "fmt"

//nolint:errcheck // the reason is not counted
func Example() {
	fmt.Println("// a string is no comment at all")
	/* A block comment is prose. */
	// Output:
	// nobody counts this output here
}
`
	found, err := goSentences(fstest.MapFS{"x_test.go": {Data: []byte(text)}}, "x_test.go")
	require.NoError(t, err)
	var got []string
	for _, s := range found {
		got = append(got, s.place+" "+s.text)
	}
	assert.Equal(t, []string{
		"x_test.go:5 Package p does one thing.",
		"x_test.go:11 the first item of it goes on here",
		"x_test.go:13 the second item of it",
		"x_test.go:23 A block comment is prose.",
	}, got)
	_, err = goSentences(fstest.MapFS{"x.go": {Data: []byte("not Go")}}, "x.go")
	require.Error(t, err)
}
