package lint

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// A document that names a test by package and pattern names one that is there: `go test` of a pattern without a match is green.

var (
	testCommand = regexp.MustCompile("`(?:[A-Z]+=[^ `]+ )*(?:cd ([^ `]+) && )?(?:[A-Z]+=[^ `]+ )*go test ([^`]*)`")
	testedDirs  = regexp.MustCompile(`(?:^| )(\.[\w./-]*)`)
	testPattern = regexp.MustCompile(`-run[ =](?:'([^']*)'|([^ ]+))`)
	testOrFuzz  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// emptyCommands lists the commands of the documents with a pattern, or a part of one, that matches no test of the packages.
func emptyCommands(tree fs.FS) (empty []string, err error) {
	tests, documents := map[string][]string{}, map[string]string{}
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		isTest, isDocument := strings.HasSuffix(name, "_test.go"), path.Ext(name) == ".md"
		if err != nil || entry.IsDir() || !isTest && !isDocument {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		if isDocument {
			documents[name] = string(text)
		}
		for _, found := range testOrFuzz.FindAllStringSubmatch(string(text), -1) {
			tests[path.Dir(name)] = append(tests[path.Dir(name)], found[1])
		}
		return err
	})
	for name, text := range documents {
		for _, command := range testCommand.FindAllStringSubmatch(text, -1) {
			pattern := testPattern.FindStringSubmatch(command[2])
			if pattern == nil {
				continue
			}
			parts, _, _ := strings.Cut(strings.ReplaceAll(pattern[1]+pattern[2], `\|`, "|"), "/") // of a subtest
			for part := range strings.SplitSeq(parts, "|") {
				if !hasTest(tests, command[1], testedDirs.FindAllStringSubmatch(command[2], -1), regexp.MustCompile(strings.Trim(part, "()"))) {
					empty = append(empty, name+": "+command[0]+": no test matches "+part)
				}
			}
		}
	}
	return empty, err
}

// hasTest reports whether a test of the packages, as they are named in the directory from, matches.
func hasTest(tests map[string][]string, from string, packages [][]string, matches *regexp.Regexp) bool {
	for dir, names := range tests {
		for _, named := range packages {
			base, below := strings.CutSuffix(named[1], "...")
			if base = path.Join(from, base); base != dir && (!below || base != "." && !strings.HasPrefix(dir, base+"/")) {
				continue
			}
			if slices.ContainsFunc(names, matches.MatchString) {
				return true
			}
		}
	}
	return false
}

func TestDocuments_NameTestsThatAreThere(t *testing.T) {
	empty, err := emptyCommands(os.DirFS("../../.."))
	require.NoError(t, err)
	require.Empty(t, empty)
}

func TestEmptyCommands_AreFound(t *testing.T) {
	empty, err := emptyCommands(fstest.MapFS{
		"a/a_test.go":   {Data: []byte("package a\nfunc TestA(t *testing.T) {}\n")},
		"b/c/c_test.go": {Data: []byte("package c\nfunc TestC_D(t *testing.T) {}\n")},
		"x.md": {Data: []byte("`go test ./a -run TestA`, `go test ./b/... -run 'TestC\\|TestB'`, `X=1 go test ./a -run C_D -count=3`, " +
			"`cd b && go test ./c -run '^(TestC_D)$/sub'`, `go test ./... -run D`")},
	})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"x.md: `go test ./b/... -run 'TestC\\|TestB'`: no test matches TestB",
		"x.md: `X=1 go test ./a -run C_D -count=3`: no test matches C_D",
	}, empty)
}
