package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// project has the same parts as this one, and no dependencies: a root module, and a library and a program in their own
// modules.
var project = map[string]string{
	"go.mod":     "module " + root + "\n\ngo 1.25.0\n",
	".gitignore": "/bin/\n",
	"lock.go": `// Package zkrecipes locks a file.
package zkrecipes

import (
	"os"
	"syscall"
)

func Lock(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
}
`,
	"low/low.go": "package low\n\nconst Low = 1\n",
	"cmd/zktestd/main.go": `package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	fmt.Println("ready 127.0.0.1:2181")
	io.Copy(io.Discard, os.Stdin)
}
`,
	"other/go.mod":   "module example.com/other\n\ngo 1.25.0\n", // not one of ours
	"other/other.go": "package other\n",
	"zkprom/go.mod":  "module " + root + "/zkprom\n\ngo 1.25.0\n\nrequire " + root + " v0.1.0\n",
	"zkprom/prom.go": "package zkprom\n\nimport \"" + root + "/low\"\n\nconst High = low.Low + 1\n",
	"cmd/zkr/go.mod": "module " + root + "/cmd/zkr\n\ngo 1.25.0\n\nrequire " + root + "/zkprom v0.1.0\n\nrequire " +
		root + " v0.1.0 // indirect\n",
	"cmd/zkr/page.txt": "a page\n",
	"cmd/zkr/main.go": `package main

import (
	_ "embed"
	"fmt"

	"` + root + `/zkprom"
)

//go:embed page.txt
var page string

func main() { fmt.Println(page, zkprom.High) }
`,
	"zktest/python/pyproject.toml": "version = \"0.1.0\"\n",
	"zktest/java/pom.xml":          "<artifactId>zktest-junit</artifactId>\n  <version>0.1.0</version>\n",
	"zktest/java/README.md":        "<artifactId>zktest-junit</artifactId>\n  <version>0.1.0</version>\n",
	"docs/guides/first-steps.md": `# First steps

## 1. Start a server

    git clone https://` + root + `
    cd zkrecipes
    go run ./cmd/zktestd -addr localhost:2181

## 2. Create a module

    mkdir clock && cd clock
    go mod init clock
    go mod edit -replace ` + root + `=../zkrecipes

## 3. Write the program

` + "```go" + `
package main

import (
	"fmt"

	"` + root + `"
)

func main() {
	fmt.Println("waiting for the lock of localhost:2181")
	if err := zkrecipes.Lock("file"); err != nil {
		panic(err)
	}
	fmt.Println("the lock is ours")
	select {}
}
` + "```\n\n## 4. Run it\n\n    go mod tidy\n    go build .\n    ./clock\n",
}

// write creates a clone of the project, changed by edits: file, old text, new text.
func write(t *testing.T, tree string, edits ...string) {
	t.Helper()
	need.Program(t, "git", "apt-get install git")
	for name, text := range project {
		for edit := edits; len(edit) > 0; edit = edit[3:] {
			if edit[0] == name {
				require.Contains(t, text, edit[1])
				text = strings.Replace(text, edit[1], edit[2], 1)
			}
		}
		name = filepath.Join(tree, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "-q", tree).Run())
}

// rehearse releases the project, changed by edits, and uses the release. The user's home is new, except for what the go
// command has compiled.
func rehearse(t *testing.T, gorelease string, modules []string, edits ...string) error {
	t.Helper()
	dir := t.TempDir()
	tree, home := filepath.Join(dir, "tree"), filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o755))
	write(t, tree, edits...)
	t.Setenv("GOPROXY", "off") // the project needs no other module
	if err := run(t.Context(), "v0.1.0", tree, gorelease, false, append([]string{"stage", dir}, modules...)); err != nil {
		return err
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	for name, value := range map[string]string{
		"HOME": home, "GOCACHE": strings.TrimSpace(string(cache)), "GOPROXY": "file://" + dir + "/modules/cache/download,off",
		"GONOSUMDB": root, "GOFLAGS": "-modcacherw", "GOPATH": "", "GOMODCACHE": "", "GOBIN": "",
	} {
		t.Setenv(name, value)
	}
	return run(t.Context(), "v0.1.0", "", "", false, append([]string{"use", tree}, modules...))
}

var all = []string{"cmd/zkr", "zkprom"}

func TestRehearsal_OfAProjectThatCanBeReleased(t *testing.T) {
	require.NoError(t, rehearse(t, "true", all))
}

func TestRehearsal_BreaksAreNoticed(t *testing.T) {
	for name, broken := range map[string]struct {
		want  string
		edits []string
	}{
		"a replacement is needed": {
			"more replace directives",
			[]string{"cmd/zkr/go.mod", "\n\nrequire", "\n\nreplace " + root + "/zkprom => ../../zkprom\n\nrequire"},
		},
		"a library needs a replacement": {
			"example.com/other: module lookup disabled by GOPROXY=off",
			[]string{
				"zkprom/go.mod", "require " + root + " v0.1.0",
				"require (\n\t" + root + " v0.1.0\n\texample.com/other v0.1.0\n)\n\nreplace example.com/other => ../other",
				"zkprom/prom.go", "import \"" + root + "/low\"", "import (\n\t_ \"example.com/other\"\n\n\t\"" + root + "/low\"\n)",
			},
		},
		"the zip lacks a file": {
			"pattern page.txt: no matching files found",
			[]string{".gitignore", "/bin/", "*.txt"},
		},
		"the zip lacks a package": {
			"does not contain package " + root + "/low",
			[]string{".gitignore", "/bin/", "low/"},
		},
		"a module requires another": {
			"zkprom/go.mod requires " + root + " v0.2.0, want v0.1.0",
			[]string{"zkprom/go.mod", "v0.1.0", "v0.2.0"},
		},
		"a package has another version": {
			"pyproject.toml states version 0.2.0, want 0.1.0",
			[]string{"zktest/python/pyproject.toml", "0.1.0", "0.2.0"},
		},
		"a document has another version": {
			"README.md states version 0.1.0-SNAPSHOT, want 0.1.0",
			[]string{"zktest/java/README.md", "0.1.0", "0.1.0-SNAPSHOT"},
		},
		"a module has another name": {
			"zkprom/go.mod: module example.com/zkprom, want",
			[]string{"zkprom/go.mod", root + "/zkprom", "example.com/zkprom"},
		},
		"a program that does not compile": {
			"undefined: zkrecipes.Locks",
			[]string{"docs/guides/first-steps.md", "zkrecipes.Lock(", "zkrecipes.Locks("},
		},
		"a command that does not work": {
			"replacement directory ../elsewhere does not exist",
			[]string{"docs/guides/first-steps.md", "=../zkrecipes", "=../elsewhere"},
		},
		"the program ends before its time": {
			"ended before it printed \"the lock is ours\"",
			[]string{"docs/guides/first-steps.md", "zkrecipes.Lock(\"file\")", "zkrecipes.Lock(\"/no/file\")"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, rehearse(t, "", all, broken.edits...), broken.want) })
	}
}

func TestRehearsal_ModuleThatIsNotReleased(t *testing.T) {
	require.ErrorContains(t, rehearse(t, "", []string{"cmd/zkr"}),
		"cmd/zkr/go.mod requires [zkprom .], which are not all released before it")
}

// TestRehearsal_Diagnostics: gorelease reports its findings, and may exit with 0.
func TestRehearsal_Diagnostics(t *testing.T) {
	gorelease := filepath.Join(t.TempDir(), "gorelease")
	require.NoError(t, os.WriteFile(gorelease, []byte("#!/bin/sh\necho '# diagnostics'\necho \"$1 $2: bad\"\n"), 0o700))
	require.ErrorContains(t, rehearse(t, gorelease, all), "-base=none -version=v0.1.0: bad")
}

// TestRehearsal_ChecksumsOfAnotherState: the root module was changed after its checksum was written for the release.
func TestRehearsal_ChecksumsOfAnotherState(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	write(t, tree)
	stage := func(name string) error {
		return run(t.Context(), "v0.1.0", tree, "", true, append([]string{"stage", filepath.Join(dir, name)}, all...))
	}
	require.NoError(t, stage("first"))
	require.FileExists(t, filepath.Join(tree, "cmd/zkr/go.sum"))
	require.NoError(t, stage("again"), "with the checksums that it has written")
	require.NoError(t, os.WriteFile(filepath.Join(tree, "low/low.go"), []byte("package low\n\nconst Low = 2\n"), 0o600))
	require.ErrorContains(t, stage("late"), "checksum mismatch")
}
