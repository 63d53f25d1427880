package foreign

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const crate = "zookeeper-0.8.0"

// TestCrateSuite runs the tests of the Rust crate zookeeper that need a server, with FOREIGN=all because compiling it
// takes a minute.
func TestCrateSuite(t *testing.T) {
	if !everything() {
		t.Skip("FOREIGN=all runs it")
	}
	need.Program(t, "cargo", "https://rustup.rs")
	source := crateSource(t)
	test := func(t *testing.T, server string, env ...string) {
		// Its code predates a lint that is now an error.
		env = append(env, "RUSTFLAGS=--cap-lints=warn", "CARGO_TARGET_DIR="+cache(t, "crate-target"))
		started := time.Now()
		r := readCargo(suite(t, 10*time.Minute, source, env, "cargo", "test", "--locked", "--test=test"))
		r.took = time.Since(started)
		judge(t, server, r, nil)
	}
	t.Run("zktest", func(t *testing.T) {
		java := t.TempDir()
		link(t, "testdata/standin/cluster.sh", filepath.Join(java, "java"))
		test(t, "zktest", "PATH="+java+":"+os.Getenv("PATH"), "ZKTESTD="+buildZktestd(t))
	})
	t.Run("zookeeper", func(t *testing.T) {
		needJava(t)
		cluster := filepath.Join(source, "zk-test-cluster") // its project contains only the source
		run(t, "mvn", "-q", "-B", "-f", cluster, "package")
		test(t, "zookeeper")
	})
}

// crateSource fetches the crate with its tests, and copies it to a directory where cargo builds it as a separate
// project.
func crateSource(t *testing.T) string {
	t.Helper()
	vendor := filepath.Join(cache(t, "crate"), "vendor")
	run(t, "cargo", "vendor", "-q", "--locked", "--versioned-dirs", "--manifest-path",
		"testdata/rust/Cargo.toml", vendor)
	source := filepath.Join(t.TempDir(), crate)
	if err := os.CopyFS(source, os.DirFS(filepath.Join(vendor, crate))); err != nil {
		t.Fatal(err)
	}
	return source
}

// link links one of our files under a name.
func link(t *testing.T, file, name string) {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, name); err != nil {
		t.Fatal(err)
	}
}

// readCargo parses the output of cargo test. Output of one test's thread may split a line of another, so the sums at
// the end are authoritative.
func readCargo(out []byte) (r results) {
	outcomes := map[string]string{"ok": "pass", "FAILED": "fail", "ignored": "skip"}
	passed, failed := 0, 0
	for line := range strings.Lines(string(out)) {
		line, ok := strings.CutPrefix(strings.TrimSpace(line), "test ")
		if sums := cargoSums.FindStringSubmatch(line); sums != nil {
			p, _ := strconv.Atoi(sums[1]) // they are digits
			f, _ := strconv.Atoi(sums[2])
			passed, failed = passed+p, failed+f
		} else if name, outcome, whole := strings.Cut(line, " ... "); ok && whole {
			r.add(name, outcomes[outcome])
		}
	}
	for len(r.passed) < passed {
		r.add("unnamed", "pass")
	}
	for len(r.failed) < failed {
		r.add("unnamed", "fail")
	}
	return r
}

var cargoSums = regexp.MustCompile(`^result: .* (\d+) passed; (\d+) failed`)

func TestReadCargo(t *testing.T) {
	r := readCargo(
		[]byte("test a ... ok\ntest b ... printed\nok\ntest c ... FAI\ntest result: FAILED. 2 passed; 1 failed; 0 ignored\n"))
	if len(r.passed) != 2 || len(r.failed) != 1 {
		t.Errorf("passed %q, failed %q", r.passed, r.failed)
	}
}
