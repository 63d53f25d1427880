package main

import (
	"bytes"
	"cmp"
	"context"
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

// batch is how long the tests of one process take without a mutant, unless a single one takes longer.
const batch = 2 * time.Second

// tester is the test binary of a package.
type tester struct{ pkg, binary string }

// test is one test function.
type test struct {
	*tester
	name string
	took time.Duration // without a mutant
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
		build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", r.spec, "-o", t.binary, "./"+pkg)
		build.Dir = r.root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		if _, err := os.Stat(t.binary); errors.Is(err, os.ErrNotExist) {
			continue // it has no tests
		}
		names, err := r.run(t, time.Minute, "", "-test.list=^(Test|Example|Fuzz)")
		if err != nil {
			return fmt.Errorf("list the tests of %s: %w\n%s", pkg, err, names)
		}
		began := time.Now()
		for name := range strings.FieldsSeq(string(names)) {
			if err := r.measure(t, name); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %v, one test at a time\n", pkg, time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// measure runs one test without a mutant.
func (r *runner) measure(t *tester, name string) error {
	reached := t.binary + "." + name
	began := time.Now()
	if out, err := r.tests(t, []string{name}, 10*time.Minute, "MUTANTS_REACHED="+reached); err != nil {
		return fmt.Errorf("%s of %s fails without a mutant: %w\n%s", name, t.pkg, err, out)
	}
	took := time.Since(began)
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

// tests runs some tests of a package.
func (r *runner) tests(t *tester, names []string, timeout time.Duration, env string) (output []byte, err error) {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	return r.run(t, timeout+10*time.Second, env, "-test.failfast", "-test.short", "-test.timeout="+timeout.String(), "-test.run="+pattern)
}

func (r *runner) run(t *tester, timeout time.Duration, env string, args ...string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir = filepath.Join(r.root, t.pkg)
	cmd.Env = append(os.Environ(), env)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// all tries the mutants, several at once, and prints the score.
func (r *runner) all(todo []mutant, workers int, out string) error {
	results, err := earlier(out)
	if err != nil {
		return err
	}
	todo = slices.DeleteFunc(todo, func(m mutant) bool { return results[m.key()] != "" })
	var (
		mu   sync.Mutex // guards results, done, errs and the file
		done int
		errs error
		wg   sync.WaitGroup
	)
	next := make(chan mutant)
	for range workers {
		wg.Go(func() {
			for m := range next {
				began := time.Now()
				result, failed := r.one(m)
				mu.Lock()
				done++
				results[m.key()] = result
				errs = errors.Join(errs, note(out, result+"\t"+m.key()))
				fmt.Fprintf(os.Stderr, "%d/%d %v: %s %s (%.1f s)\n", done, len(todo), m, result, failed, time.Since(began).Seconds())
				mu.Unlock()
			}
		})
	}
	for _, m := range todo {
		next <- m
	}
	close(next)
	wg.Wait()
	return errors.Join(errs, score(results))
}

func note(out, line string) error {
	if out == "" {
		return nil
	}
	f, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
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
		if out, err := r.tests(first.tester, names, 5*took+10*time.Second, fmt.Sprintf("MUTANT=%d", m.id)); err != nil {
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
	if bytes.Contains(output, []byte("panic: test timed out")) {
		return "timeout"
	}
	return "panic"
}
