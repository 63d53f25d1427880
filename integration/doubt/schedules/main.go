// Command schedules runs tests in virtual time under schedules that rarely occur. Before and after every channel
// operation and every use of a mutex, a goroutine may let the others run for a long while. All of these schedules are
// legal, so a failure reveals a bug, in the code or in the test.
//
//	go run ./doubt/schedules                                        all tests of the root module, from integration/
//	go run ./doubt/schedules -each 1m -run 'TestTxn' ./internal/znode    some of them, for longer
//	go run ./doubt/schedules -module ../zkgrpc                        all tests of another module
//
// The command runs each test repeatedly for a while, in new processes and with one, two and four processors. Tests
// outside a testing/synctest bubble run as usual. It builds a Go runtime with yields, using go build -overlay, so
// nothing on disk changes.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/doubt/overlay"
)

//go:embed testdata/yield.go
var yield []byte

// edits insert the yields into the Go distribution. Functions that must not grow the stack cannot call others, so they
// lose that mark.
var edits = []overlay.Edit{
	around("runtime/chan.go", "//go:nosplit\n", "func chansend1(c *hchan, elem unsafe.Pointer) {\n"),
	around("runtime/chan.go", "//go:nosplit\n", "func chanrecv1(c *hchan, elem unsafe.Pointer) {\n"),
	around("runtime/chan.go", "//go:nosplit\n", "func chanrecv2(c *hchan, elem unsafe.Pointer) (received bool) {\n"),
	around("runtime/chan.go", "", "func closechan(c *hchan) {\n"),
	around("runtime/select.go", "", "block bool) (int, bool) {\n"),
	around("internal/sync/mutex.go", "", "func (m *Mutex) Lock() {\n"),
	around("internal/sync/mutex.go", "", "func (m *Mutex) Unlock() {\n"),
	{
		File: "internal/sync/mutex.go", Old: "// Lock locks m.\n",
		New: "//go:linkname yieldAtRandom\nfunc yieldAtRandom()\n\n// Lock locks m.\n",
	},
}

// around inserts a yield at the beginning of a function and one at its end.
func around(file, mark, begin string) overlay.Edit {
	return overlay.Edit{File: file, Old: mark + begin, New: begin + "\tyieldAtRandom()\n\tdefer yieldAtRandom()\n"}
}

func main() {
	var r runner
	flag.DurationVar(&r.each, "each", 2*time.Second, "how long to repeat each test")
	flag.StringVar(&r.pattern, "run", "^Test", "regular expression of tests")
	flag.StringVar(&r.module, "module", "..", "folder of the module")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedules:", err)
		os.Exit(1)
	}
}

// timeout bounds one process of a test, which may take many times what it takes alone.
const timeout = 10 * time.Minute

type runner struct {
	each          time.Duration
	pattern       string
	module        string
	dir           string // of the built files
	tests, failed int
}

func (r *runner) run(ctx context.Context, packages []string) (err error) {
	if r.dir, err = os.MkdirTemp("", "schedules-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.dir) }() // in the temporary directory
	spec, err := r.overlay(ctx)
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	list, err := r.output(ctx, r.module, "go", append([]string{"list", "-f", "{{.Name}} {{.Dir}}"}, packages...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := r.test(ctx, name, dir, spec); err != nil {
			return err
		}
	}
	switch {
	case r.tests == 0:
		return fmt.Errorf("no test matches %q", r.pattern)
	case r.failed > 0:
		return fmt.Errorf("%d of %d tests fail", r.failed, r.tests)
	}
	return nil
}

// overlay inserts the yields into copies of the runtime's files, and returns the flag that makes go build use them.
func (r *runner) overlay(ctx context.Context) (string, error) {
	root, err := r.output(ctx, "..", "go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	src := filepath.Join(strings.TrimSpace(root), "src")
	return overlay.Write(r.dir, src, edits, map[string][]byte{"runtime/yield_at_random.go": yield})
}

// test runs each test of a package for a while.
func (r *runner) test(ctx context.Context, pkg, dir, spec string) error {
	binary := filepath.Join(r.dir, "package.test")
	args := []string{"test", "-c", "-o", binary, "-overlay", spec, "."}
	if out, err := r.output(ctx, dir, "go", args...); err != nil || strings.Contains(out, "[no test files]") {
		return err
	}
	list, err := r.output(ctx, dir, binary, "-test.list", r.pattern)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(list) {
		if name == "TestRandom" { // may take longer than the timeout
			continue
		}
		r.tests++
		fmt.Printf("%s %s: ", pkg, name)
		runs, err := r.repeat(ctx, dir, binary, name)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			r.failed++
			fmt.Printf("FAIL in run %d: %v\n", runs, err)
			continue
		}
		fmt.Printf("ok, %d runs\n", runs)
	}
	return os.Remove(binary)
}

// repeat runs a test until it fails or its time is over.
func (r *runner) repeat(ctx context.Context, dir, binary, name string) (runs int, err error) {
	for start := time.Now(); time.Since(start) < r.each; {
		runs++
		_, err := r.output(ctx, dir, binary, "-test.run", "^"+name+"$", "-test.short", "-test.cpu", "1,2,4",
			"-test.timeout", timeout.String())
		if err != nil {
			return runs, err
		}
	}
	return runs, nil
}

// output runs a command and returns its output, which an error includes.
func (r *runner) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), err
}
