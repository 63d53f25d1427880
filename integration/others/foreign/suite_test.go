package foreign

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Suites published by other projects run here from their artifacts, which are fetched by exact version into .cache and
// never changed. Each runs against zktest, and with FOREIGN=all against a real server as a control. Tests that fail
// only on zktest must be declared, with the reason.

// results are the tests of a suite, by name.
type results struct {
	passed, failed, skipped []string
	why, class              map[string]string // of a failed test: what the report says, and its full class name
	took                    time.Duration
}

func (r results) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped in %.0f s", len(r.passed), len(r.failed),
		len(r.skipped), r.took.Seconds())
}

// everything reports whether the complete suites must run, on a real server as well, which takes minutes.
func everything() bool { return os.Getenv("FOREIGN") == "all" }

// judge fails the test for undeclared failures, and for declared failures that pass.
func judge(t *testing.T, server string, r results, declared map[string]string) {
	t.Helper()
	t.Logf("%s: %v", server, r)
	for _, name := range r.failed {
		t.Logf("%s: %s", name, r.why[name])
		if why, ok := declared[bare(name)]; ok {
			t.Logf("%s: %s fails: %s", server, name, why)
		} else if server == "zktest" {
			t.Errorf("%s: %s fails", server, name)
		} else {
			t.Logf("%s: %s fails", server, name)
		}
	}
	if len(r.passed) == 0 {
		t.Errorf("%s: nothing passed", server)
	}
	for _, name := range r.passed {
		if declared[bare(name)] != "" && server == "zktest" {
			t.Logf("%s: %s is declared to fail, and passes", server, name)
		}
	}
}

// bare returns the name of a test without its parameters.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "(")
	return name
}

// cache returns a permanent directory for fetched files, which git ignores.
func cache(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(".cache", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// standin builds the program that replaces ZooKeeper, under the given name, and returns its directory.
func standin(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "go", "build", "-o", filepath.Join(dir, name), "./standin")
	return dir
}

// edit replaces a passage, which must occur once, in a copy of a source file.
func edit(t *testing.T, file, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%s: not once in it: %s", file, old)
	}
	_ = os.Remove(file) // it may be read-only
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// suite runs a program, whose exit status adds nothing to its report, and returns its output.
func suite(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // whatever a suite leaves behind ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", name, err, tail(out))
	}
	if ctx.Err() != nil {
		t.Errorf("%s: not done in %v\n%s", name, limit, tail(out))
	}
	return out
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }

// readGo parses the output of go test -json.
func readGo(t *testing.T, out []byte) (r results) {
	t.Helper()
	r.why = map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue
		}
		r.why[e.Test] = string(tail([]byte(r.why[e.Test] + e.Output)))
		r.add(e.Test, e.Action)
	}
	if len(r.passed) == 0 {
		t.Logf("%s", tail(out))
	}
	return r
}

func (r *results) add(name, outcome string) {
	switch outcome {
	case "pass":
		r.passed = append(r.passed, name)
	case "fail":
		r.failed = append(r.failed, name)
	case "skip":
		r.skipped = append(r.skipped, name)
	}
}

func (r *results) merge(more results) {
	r.passed = append(r.passed, more.passed...)
	r.failed = append(r.failed, more.failed...)
	r.skipped = append(r.skipped, more.skipped...)
	maps.Copy(r.why, more.why)
}

// again repeats undeclared failures, and counts as passed what then passes. Third-party suites have limits in seconds,
// which a busy machine may exceed.
func (r *results) again(t *testing.T, declared map[string]string, run func(failed []string) results) {
	t.Helper()
	failed := slices.DeleteFunc(slices.Clone(r.failed), func(name string) bool { return declared[bare(name)] != "" })
	if len(failed) == 0 {
		return
	}
	for _, name := range failed {
		t.Logf("again, as %s has failed: %s", name, r.why[name])
	}
	passed := run(failed).passed
	r.failed = slices.DeleteFunc(r.failed, func(name string) bool { return slices.Contains(passed, name) })
	for _, name := range failed {
		if slices.Contains(passed, name) {
			r.passed = append(r.passed, name)
		}
	}
}

// classes returns the arguments that select the classes of tests in JUnit.
func (r *results) classes(names []string) (args []string) {
	for _, name := range names {
		args = append(args, "--select-class="+r.class[name])
	}
	slices.Sort(args)
	return slices.Compact(args)
}

// readXML reads the reports that pytest and JUnit write below a directory.
func readXML(t *testing.T, dir string) (r results) {
	t.Helper()
	r.why, r.class = map[string]string{}, map[string]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".xml") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		d := xml.NewDecoder(bytes.NewReader(text))
		d.Strict = false // messages of exceptions contain arbitrary characters
		for {
			token, err := d.Token()
			if err != nil {
				return nil //nolint:nilerr // the end of the report
			}
			start, ok := token.(xml.StartElement)
			if !ok || start.Name.Local != "testcase" {
				continue
			}
			var c struct {
				Class   string    `xml:"classname,attr"`
				Name    string    `xml:"name,attr"`
				Failure *string   `xml:"failure"`
				Error   *string   `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			}
			if err := d.DecodeElement(&c, &start); err != nil {
				return err
			}
			name, outcome := c.Class[strings.LastIndex(c.Class, ".")+1:]+"."+c.Name, "pass"
			if trace := cmp.Or(c.Failure, c.Error); trace != nil {
				outcome, r.why[name], r.class[name] = "fail", (*trace)[:min(len(*trace), 600)], c.Class
			} else if c.Skipped != nil {
				outcome = "skip"
			}
			r.add(name, outcome)
		}
	})
	if err != nil {
		t.Error(err)
	}
	return r
}
