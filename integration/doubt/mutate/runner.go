package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const survives = "SURVIVES"

// longest bounds each process.
const longest = 5 * time.Minute

// batch is how long the tests of one process take without a mutant, unless a single one takes longer.
const batch = 2 * time.Second

// tester is the test binary of a package.
type tester struct{ pkg, binary string }

// test is one test function.
type test struct {
	*tester
	name string
	took time.Duration // of the processor, without a mutant
}

type runner struct {
	root, dir, spec string
	reachedBy       map[int][]test // by mutant: the tests in which it would change something
}

// prepare builds the test binaries, and finds out which mutants each test reaches.
func (r *runner) prepare(pkgs []string) error {
	r.reachedBy = map[int][]test{}
	for i, pkg := range pkgs {
		t := &tester{pkg: pkg, binary: filepath.Join(r.dir, fmt.Sprintf("%d.test", i))}
		build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", r.spec, "-o", t.binary, ".")
		build.Dir = filepath.Join(r.root, pkg) // which may be in a nested module
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		if _, err := os.Stat(t.binary); errors.Is(err, os.ErrNotExist) {
			continue // it has no tests
		}
		names, _, err := r.run(t, "", longest, "-test.list=^(Test|Example|Fuzz)")
		if err != nil {
			return fmt.Errorf("list the tests of %s: %w\n%s", pkg, err, names)
		}
		began := time.Now()
		for name := range strings.FieldsSeq(string(names)) {
			if err := r.watch(t, name); err != nil { // perhaps because the machine is busy
				if err := r.watch(t, name); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %v, one test at a time\n", pkg, time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// watch runs one test without a mutant.
func (r *runner) watch(t *tester, name string) error {
	reached := t.binary + "." + name
	out, took, err := r.tests(t, []string{name}, "MUTANTS_REACHED="+reached, longest)
	if err != nil {
		return fmt.Errorf("%s of %s fails without a mutant: %w\n%s", name, t.pkg, err, out)
	}
	numbers, err := os.ReadFile(reached)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for field := range strings.FieldsSeq(string(numbers)) {
		id, err := strconv.Atoi(field)
		if err != nil {
			return err
		}
		r.reachedBy[id] = append(r.reachedBy[id], test{t, name, took})
	}
	return nil
}

// tests runs some tests of a package, within a limit of processor time.
func (r *runner) tests(t *tester, names []string, env string, limit time.Duration) (output []byte,
	took time.Duration, err error,
) {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	return r.run(t, env, limit, "-test.failfast", "-test.short", "-test.timeout="+longest.String(), "-test.run="+pattern)
}

// run limits processor time, because a busy machine is no reason to call a mutant noticed. A test that hangs in virtual
// time uses the processor, too.
func (r *runner) run(t *tester, env string, limit time.Duration, args ...string) (output []byte,
	took time.Duration, err error,
) {
	const limited = `ulimit -t "$0" && exec "$@"`
	cmd := exec.Command("sh", append([]string{"-c", limited, fmt.Sprint(int(limit.Seconds())), t.binary}, args...)...)
	cmd.Dir = filepath.Join(r.root, t.pkg)
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = time.Second
	output, err = cmd.CombinedOutput()
	return output, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// all tries the mutants, two at once, and prints the score.
func (r *runner) all(todo []mutant) error {
	var (
		mu sync.Mutex // guards results
		wg sync.WaitGroup
	)
	results := map[string]string{}
	next := make(chan mutant)
	for range 2 {
		wg.Go(func() {
			for m := range next {
				began := time.Now()
				result, failed := r.one(m)
				mu.Lock()
				results[m.key()] = result
				fmt.Fprintf(os.Stderr, "%d/%d %v: %s %s (%.1f s)\n", len(results), len(todo), m, result, failed,
					time.Since(began).Seconds())
				mu.Unlock()
			}
		})
	}
	for _, m := range todo {
		next <- m
	}
	close(next)
	wg.Wait()
	return score(results)
}

// one returns the package whose tests notice, and the test that fails, or survives.
func (r *runner) one(m mutant) (pkg, failed string) {
	left := slices.Clone(r.reachedBy[m.id])
	own := filepath.Dir(m.file)
	slices.SortStableFunc(left, func(a, b test) int {
		switch {
		case a.pkg == own && b.pkg != own:
			return -1
		case b.pkg == own && a.pkg != own:
			return 1
		default:
			return cmp.Compare(a.took, b.took)
		}
	})
	for len(left) > 0 {
		first := left[0]
		var names []string
		var took time.Duration
		left = slices.DeleteFunc(left, func(t test) bool {
			if t.tester != first.tester || len(names) > 0 && took+t.took > batch {
				return false
			}
			names, took = append(names, t.name), took+t.took
			return true
		})
		limit := min(5*took+10*time.Second, longest)
		if out, _, err := r.tests(first.tester, names, fmt.Sprintf("MUTANT=%d", m.id), limit); err != nil {
			return first.pkg, failure(out)
		}
	}
	return survives, ""
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// failure returns the name of the test that failed, or how its process ended.
func failure(output []byte) string {
	if found := failedTest.FindSubmatch(output); found != nil {
		return string(found[1])
	}
	if bytes.Contains(output, []byte("panic: ")) {
		return "panic"
	}
	return "timeout"
}
