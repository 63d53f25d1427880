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

// Commands that documents print can be run: the programs that they start and the targets that they make exist.
// integration/release/printed runs commands as printed.

var (
	codeOf     = regexp.MustCompile("(?ms)`([^`\n]+)`|^ {4,}([^ ].*?)$|^ *```sh\n(.*?)^ *```")
	goProgram  = regexp.MustCompile(`\bgo (?:-C ([\w./-]+) )?(?:run|install) (\.[\w./-]*)`)
	makeTarget = regexp.MustCompile(`(?m)(?:^|&& |[A-Z]=\S+ )make ([a-z][a-z-]*)`)
	ruleOf     = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// deadCommands lists the commands in documents that start a program, or make a target, that does not exist. A program
// may be in any module: the text around it explains where to run it.
func deadCommands(tree fs.FS) (dead []string, err error) {
	texts, err := texts(tree)
	if err != nil {
		return nil, err
	}
	programs := map[string]bool{}
	for _, name := range named(texts, ".go") {
		if !strings.HasSuffix(name, "_test.go") && strings.Contains("\n"+texts[name], "\npackage main\n") {
			programs[path.Dir(name)] = true
		}
	}
	modules := named(texts, "go.mod")
	var targets []string
	for _, t := range ruleOf.FindAllStringSubmatch(texts["Makefile"], -1) {
		targets = append(targets, t[1])
	}
	for _, name := range named(texts, ".md") {
		for _, code := range codeOf.FindAllStringSubmatch(texts[name], -1) {
			command := code[1] + code[2] + code[3]
			for _, m := range makeTarget.FindAllStringSubmatch(command, -1) {
				if !slices.Contains(targets, m[1]) {
					dead = append(dead, name+": "+command+": no target "+m[1])
				}
			}
			for _, p := range goProgram.FindAllStringSubmatch(command, -1) {
				if !slices.ContainsFunc(modules, func(mod string) bool { return programs[path.Join(path.Dir(mod), p[1], p[2])] }) {
					dead = append(dead, name+": "+command+": no program "+p[2])
				}
			}
		}
	}
	return dead, nil
}

func TestDocuments_NameProgramsAndTargetsThatAreThere(t *testing.T) {
	dead, err := deadCommands(os.DirFS("../../.."))
	require.NoError(t, err)
	require.Empty(t, dead)
}

func TestDeadCommands_AreFound(t *testing.T) {
	dead, err := deadCommands(fstest.MapFS{
		"Makefile":    {Data: []byte("all: ## everything\n")},
		"go.mod":      {},
		"b/go.mod":    {},
		"a/main.go":   {Data: []byte("package main\n")},
		"b/c/main.go": {Data: []byte("// Command c.\npackage main\n")},
		"d/d.go":      {Data: []byte("package d\n")},
		"x.md": {Data: []byte("Run `go run ./a -x`, `make all`, `X=1 make none` or `go -C b install ./c`:\n\n" +
			"    go run ./c\n    go run ./d\n\n```sh\ngo install ./e\n```\n")},
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"x.md: X=1 make none: no target none", "x.md: go run ./d: no program ./d", "x.md: go install ./e\n: no program ./e",
	}, dead)
}
