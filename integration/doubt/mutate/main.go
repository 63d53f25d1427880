// Command mutate changes conditions, calculations and statements of the code, one at a time, and shows which changes no
// test notices.
//
//	go run ./doubt/mutate                          every mutant, from integration/: hours
//	go run ./doubt/mutate -sample 300 -seed 7      a sample
//	go run ./doubt/mutate -files 'internal/znode'  those of some files
//	go run ./doubt/mutate -tests '^fence$'         with the tests of some packages alone
//
// All mutants are compiled into the test binaries at once, and the environment selects the active one. First each test
// runs without a mutant, and records the mutants that would have changed a value or left out a statement. A mutant runs
// only against these tests: those of its own package first, then those of the others, the quick ones first.
//
// Gremlins (github.com/go-gremlins/gremlins) does less: it has no seeds and no list of equivalents, it never leaves out
// a statement, and for each mutant it can run other packages' tests only all together.
//
// Nothing on disk changes. The file equivalent.txt lists mutants that change nothing a test could see, with reasons.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"go/build"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/integration/doubt/overlay"
)

const (
	modulePath  = "github.com/zkrecipes/zkrecipes"
	runtimePath = modulePath + "/internal/mutation"
)

//go:embed runtime.go.txt
var runtimeSource []byte

//go:embed equivalent.txt
var equivalentList string

// mutated are the directories whose code is mutated; the root is hold.go and its neighbors.
var mutated = []string{
	".", "conn", "internal/client", "internal/session", "internal/lifetime", "internal/liveness", "internal/link",
	"internal/wire", "internal/outcome", "internal/paths", "internal/tally", "internal/ephemeral", "internal/hold",
	"internal/record", "internal/znode", "fence",
	"recipes/mutex", "recipes/rwlock", "recipes/semaphore", "recipes/multilock", "recipes/election",
	"recipes/barrier", "recipes/cache", "recipes/discovery", "recipes/group", "recipes/node", "recipes/shard",
	"recipes/value", "zkhttp", "zkprom",
}

// testers are the packages whose tests may notice.
var testers = append(slices.Clone(mutated), "internal/testkit/faults", "internal/recipe", "internal/trace", "zktest")

func main() {
	c := config{}
	files := flag.String("files", "", "regular `expression` of file names")
	tests := flag.String("tests", "", "regular `expression` of the packages whose tests run")
	flag.IntVar(&c.sample, "sample", 0, "`number` of mutants to try; 0 is all")
	flag.Uint64Var(&c.seed, "seed", 1, "of the sample")
	flag.Parse()
	var err error
	if c.files, err = regexp.Compile(*files); err == nil {
		if c.tests, err = regexp.Compile(*tests); err == nil {
			err = run(c)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

type config struct {
	files, tests *regexp.Regexp
	sample       int
	seed         uint64
}

func run(c config) error {
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the temporary directory
	in, spec, err := instrument("..", dir, mutated)
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(in.mutants), func(m mutant) bool { return !c.files.MatchString(m.file) })
	if c.sample > 0 {
		random := rand.New(rand.NewPCG(c.seed, 0))
		random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		todo = todo[:min(c.sample, len(todo))]
	}
	r := &runner{root: "..", dir: dir, spec: spec}
	chosen := slices.DeleteFunc(slices.Clone(testers), func(pkg string) bool { return !c.tests.MatchString(pkg) })
	if err := r.prepare(chosen); err != nil {
		return err
	}
	return r.all(todo)
}

// instrument writes the mutated files, and returns the overlay that substitutes them.
func instrument(root, dir string, pkgs []string) (*instrumenter, string, error) {
	in := &instrumenter{root: root}
	added := map[string][]byte{"internal/mutation/mutation.go": runtimeSource}
	for _, pkg := range pkgs {
		names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return nil, "", err
		}
		if err := in.learn(names); err != nil {
			return nil, "", err
		}
		for _, name := range names {
			name, err := filepath.Rel(root, name)
			if err != nil {
				return nil, "", err
			}
			if matches, err := build.Default.MatchFile(filepath.Join(root, pkg), filepath.Base(name)); err != nil {
				return nil, "", err
			} else if !matches || strings.HasSuffix(name, "_test.go") {
				continue // a mutant in a file for another platform would survive
			}
			text, err := in.file(name)
			if err != nil {
				return nil, "", err
			}
			if text != nil {
				added[name] = text
			}
		}
	}
	spec, err := overlay.Write(dir, root, nil, added)
	return in, spec, err
}

// equivalents returns the keys of the mutants that change nothing a test could see.
func equivalents() (map[string]bool, error) {
	keys := map[string]bool{}
	for line := range strings.Lines(equivalentList) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 5 || cells[4] == "" {
			return nil, fmt.Errorf("equivalent.txt: %q: want file, kind, code, number and reason, separated by tabs", line)
		}
		keys[strings.Join(cells[:4], "\t")] = true
	}
	return keys, nil
}

// score prints how many mutants were noticed, and which were not.
func score(results map[string]string) error {
	equal, err := equivalents()
	if err != nil {
		return err
	}
	noticed, survived, equivalent := 0, []string{}, 0
	for _, key := range slices.Sorted(maps.Keys(results)) {
		switch {
		case results[key] != survives:
			noticed++
		case equal[key]:
			equivalent++
		default:
			survived = append(survived, key)
		}
	}
	for _, key := range survived {
		fmt.Println("NOT NOTICED", key)
	}
	total := noticed + len(survived)
	fmt.Printf("%d of %d noticed (%.1f %%), %d more are equivalent\n", noticed, total,
		100*float64(noticed)/float64(max(total, 1)), equivalent)
	return nil
}
