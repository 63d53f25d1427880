package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const survives = "SURVIVES"

// tester is the test binary of a package.
type tester struct {
	pkg     string
	binary  string
	took    time.Duration // without a mutant
	reaches map[int]bool
}

type runner struct {
	root, dir, spec string
	testers         []*tester // the quick ones first
}

// prepare builds the test binaries, and finds out which mutants each reaches.
func (r *runner) prepare(pkgs []string) error {
	for i, pkg := range pkgs {
		t := &tester{pkg: pkg, binary: filepath.Join(r.dir, fmt.Sprintf("%d.test", i)), reaches: map[int]bool{}}
		build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", r.spec, "-o", t.binary, "./"+pkg)
		build.Dir = r.root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		if _, err := os.Stat(t.binary); errors.Is(err, os.ErrNotExist) {
			continue // it has no tests
		}
		reached := t.binary + ".reached"
		began := time.Now()
		if out, err := r.start(t, 10*time.Minute, "MUTANTS_REACHED="+reached); err != nil {
			return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", pkg, err, out)
		}
		t.took = time.Since(began)
		numbers, err := os.ReadFile(reached)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for field := range strings.FieldsSeq(string(numbers)) {
			id, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			t.reaches[id] = true
		}
		fmt.Fprintf(os.Stderr, "%s: %v, reaches %d mutants\n", pkg, t.took.Round(time.Millisecond), len(t.reaches))
		r.testers = append(r.testers, t)
	}
	slices.SortFunc(r.testers, func(a, b *tester) int { return int(a.took - b.took) })
	return nil
}

// start runs a test binary in its package.
func (r *runner) start(t *tester, timeout time.Duration, env string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, "-test.failfast", "-test.short", "-test.timeout="+timeout.String())
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
				result := r.one(m)
				mu.Lock()
				done++
				results[m.key()] = result
				errs = errors.Join(errs, note(out, result+"\t"+m.key()))
				fmt.Fprintf(os.Stderr, "%d/%d %v: %s\n", done, len(todo), m, result)
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

// one returns the package whose tests notice, or survives.
func (r *runner) one(m mutant) string {
	own := filepath.Dir(m.file)
	ordered := slices.Clone(r.testers)
	slices.SortStableFunc(ordered, func(a, b *tester) int {
		switch {
		case a.pkg == own && b.pkg != own:
			return -1
		case b.pkg == own && a.pkg != own:
			return 1
		default:
			return 0
		}
	})
	for _, t := range ordered {
		if !t.reaches[m.id] {
			continue
		}
		if _, err := r.start(t, 5*t.took+10*time.Second, fmt.Sprintf("MUTANT=%d", m.id)); err != nil {
			return t.pkg
		}
	}
	return survives
}
