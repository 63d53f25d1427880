// Command canaries breaks the code on purpose, one mutation at a time, and shows which test notices and how soon. A
// mutation that no test notices is a hole in the tests, and makes the command fail.
//
//	go run ./canaries                 all of them, from integration/
//	go run ./canaries -run 'proof'    those whose name matches
//
// Nothing is changed on disk: the broken file is put in the place of the good one with go build -overlay, also in the
// programs that the tests build.
package main

import (
	"context"
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
	"text/tabwriter"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/overlay"
)

// A mutant is one way to break the code.
type mutant struct {
	name  string
	edits []edit
	tests []test // in this order, until one fails
}

// A test is a test that must fail, as arguments of go test and what they take from the environment.
type test struct {
	dir  string // below the root
	args []string
	env  []string
}

func (t test) String() string {
	return strings.Join(slices.Concat(t.env, t.args), " ")
}

// single splits the tests into one for each package. A package that is edited comes first: its tests notice most, and soonest.
func (m mutant) single() []test {
	var own, others []test
	for _, t := range m.tests {
		first := slices.IndexFunc(t.args, func(arg string) bool { return arg[0] != '-' })
		for _, p := range t.args[first:] {
			one := test{t.dir, append(slices.Clone(t.args[:first]), p), t.env}
			if slices.ContainsFunc(m.edits, func(e edit) bool { return e.dir == path.Join(t.dir, p) }) {
				own = append(own, one)
			} else {
				others = append(others, one)
			}
		}
	}
	return append(own, others...)
}

func main() {
	pattern := flag.String("run", "", "regular expression of names")
	baseline := flag.Bool("baseline", true, "run every test that notices on the unbroken code too")
	timeout := flag.Duration("timeout", 100*time.Second, "of one test; a test that hangs notices too")
	flag.Parse()
	if err := run(*pattern, *baseline, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "canaries:", err)
		os.Exit(1)
	}
}

func run(pattern string, baseline bool, timeout time.Duration) error {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "canaries-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the temporary directory
	r := newRunner("..", dir)
	r.timeout, r.baseline = timeout, baseline
	if _, err := os.Stat(filepath.Join(r.root, "conn")); err != nil {
		return fmt.Errorf("run it in integration/: %w", err)
	}
	todo := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !chosen.MatchString(m.name) })
	return r.all(todo)
}

type runner struct {
	root, dir string
	timeout   time.Duration
	baseline  bool
	sound     map[string]error // tests, as they do on the unbroken code
	sources   *sources
}

func newRunner(root, dir string) *runner {
	return &runner{
		root: root, dir: dir, sound: map[string]error{},
		sources: &sources{root: root, files: map[string]map[string][]string{}, texts: map[string][]byte{}},
	}
}

// check runs a test that has noticed something on the code as it is: one that fails anyway notices nothing.
func (r *runner) check(t test) error {
	if !r.baseline {
		return nil
	}
	err, known := r.sound[t.String()]
	if !known {
		failed, broken := r.fails(t, "")
		if err = broken; failed != "" {
			err = fmt.Errorf("%v fails on the unbroken code too: %s", t, failed)
		}
		r.sound[t.String()] = err
	}
	return err
}

func (r *runner) all(todo []mutant) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	row := func(cells string) { _, _ = fmt.Fprintln(table, cells) } // into memory
	row("mutation\tnoticed by\tafter")
	var errs []error
	for _, m := range todo {
		by, after, err := r.one(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
			by = "NOBODY: " + err.Error()
		}
		after = after.Round(100 * time.Millisecond)
		fmt.Fprintf(os.Stderr, "%s: %s after %v\n", m.name, by, after)
		row(fmt.Sprintf("%s\t%s\t%v", m.name, by, after))
	}
	return errors.Join(append(errs, table.Flush())...)
}

// one breaks the code in one way and returns which test has noticed, and after how long.
func (r *runner) one(m mutant) (by string, after time.Duration, err error) {
	spec, err := r.overlay(m)
	if err != nil {
		return "", 0, err
	}
	for _, e := range m.edits {
		build := exec.Command("go", "build", "-overlay", spec) // the tests build what uses it
		build.Dir = filepath.Join(r.root, e.dir)               // which may be in a module of its own
		if out, err := build.CombinedOutput(); err != nil {
			return "", 0, fmt.Errorf("the mutation does not compile: %w\n%s", err, out)
		}
	}
	began := time.Now()
	for _, t := range m.single() {
		failed, err := r.fails(t, spec)
		after = time.Since(began)
		if failed != "" {
			err = r.check(t)
		}
		if failed != "" || err != nil {
			return failed, after, err
		}
	}
	return "", after, errors.New("it survives")
}

// overlay writes the broken files, and what puts them in place.
func (r *runner) overlay(m mutant) (spec string, err error) {
	texts := map[string][]byte{}
	for _, e := range m.edits {
		if err := r.sources.apply(texts, e); err != nil {
			return "", err
		}
	}
	return overlay.Write(r.dir, r.root, nil, texts)
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: test timed out|fatal error: .*|panic: .*)`)

// fails runs a test and returns what failed, "" if nothing did. The error says that there was no verdict.
func (r *runner) fails(t test, spec string) (what string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout+time.Minute)
	defer cancel()
	args := append([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout=" + r.timeout.String()}, t.args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(r.root, t.dir)
	cmd.Env = append(os.Environ(), t.env...)
	if spec != "" {
		// In the environment, so that programs which a test builds are broken too.
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+spec))
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	found := failure.FindStringSubmatch(string(out))
	if found == nil {
		return "", fmt.Errorf("%v: %w\n%s", t, err, out)
	}
	return strings.TrimSpace(found[1] + found[2]), nil
}
