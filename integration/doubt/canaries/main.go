// Command canaries breaks each contract and each safety argument, one at a time, and shows which test notices. If no
// test notices, the tests have a gap, and the command fails. Command mutate breaks what a single condition can break.
//
//	go run ./doubt/canaries                 all of them, from integration/
//	go run ./doubt/canaries -run 'proof'    those whose name matches
//
// Nothing changes on disk: go build -overlay substitutes the broken file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/doubt/overlay"
)

// A canary is one way to break the code. One of the tests must fail: they are arguments of go test, separated by
// semicolons.
type canary struct {
	name, tests string
	edits       []edit
}

// single splits the tests into one per package. An edited package comes first: its tests notice most, and soonest.
func (c canary) single() []string {
	var own, others []string
	for args := range strings.SplitSeq(c.tests, ";") {
		module, flags := ".", ""
		fields := strings.Fields(args)
		for i, field := range fields {
			switch {
			case field[0] == '-':
				flags += field + " "
			case i > 0 && fields[i-1] == "-C":
				module, flags = field, flags+field+" "
			case slices.ContainsFunc(c.edits, func(e edit) bool { return e.dir == path.Join(module, field) }):
				own = append(own, flags+field)
			default:
				others = append(others, flags+field)
			}
		}
	}
	return append(own, others...)
}

func main() {
	pattern := flag.String("run", "", "regular expression of names")
	flag.Parse()
	if err := run(*pattern); err != nil {
		fmt.Fprintln(os.Stderr, "canaries:", err)
		os.Exit(1)
	}
}

func run(pattern string) error {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "canaries-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the temporary directory
	r := &runner{root: "..", dir: dir, sound: map[string]bool{}}
	var errs []error
	for _, c := range canaries {
		if !chosen.MatchString(c.name) {
			continue
		}
		began := time.Now()
		by, err := r.one(c)
		if err != nil {
			by = "NOBODY: " + err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
		_, _ = fmt.Fprintf(os.Stdout, "%s: %s after %v\n", c.name, by, time.Since(began).Round(100*time.Millisecond))
	}
	return errors.Join(errs...)
}

type runner struct {
	root, dir string
	sound     map[string]bool // tests that pass on the unbroken code
}

// one breaks the code in one way, and returns which test noticed. A test that fails anyway notices nothing.
func (r *runner) one(c canary) (by string, err error) {
	spec, err := r.overlay(c)
	if err != nil {
		return "", err
	}
	for _, e := range c.edits {
		build := exec.Command("go", "build", "-overlay", spec) // the tests build its dependents
		build.Dir = filepath.Join(r.root, e.dir)               // which may be in another module
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
		}
	}
	for _, t := range c.single() {
		failed, err := r.fails(t, spec)
		if failed != "" && !r.sound[t] {
			var before string
			if before, err = r.fails(t, ""); before != "" {
				err = fmt.Errorf("%s fails on the unbroken code too: %s", t, before)
			}
			r.sound[t] = err == nil
		}
		if failed != "" || err != nil {
			return failed, err
		}
	}
	return "", errors.New("it survives")
}

// overlay writes the broken files, and the file that substitutes them.
func (r *runner) overlay(c canary) (spec string, err error) {
	texts := map[string][]byte{}
	for _, e := range c.edits {
		if err := e.apply(r.root, texts); err != nil {
			return "", err
		}
	}
	return overlay.Write(r.dir, r.root, nil, texts)
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: test timed out|fatal error: .*|panic: .*)`)

// fails runs a test and returns what failed, or "". A test that hangs fails, too. An error means that there was no
// verdict.
func (r *runner) fails(test, spec string) (what string, err error) {
	args := append([]string{"test"}, strings.Fields(test)...) // a -C comes first
	cmd := exec.Command("go", append(args, "-vet=off", "-count=1", "-failfast", "-timeout=100s")...)
	cmd.Dir = r.root
	if spec != "" {
		// In the environment, so that programs that a test builds are broken, too.
		cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+spec))
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	found := failure.FindStringSubmatch(string(out))
	if found == nil {
		return "", fmt.Errorf("%s: %w\n%s", test, err, out)
	}
	return strings.TrimSpace(found[1] + found[2]), nil
}
