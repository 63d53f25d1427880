// Package need decides which tests run when a machine lacks what they use.
//
// With REQUIRE_REAL=1 every test runs, and fails if something is missing. Otherwise a test that needs something missing
// is skipped, and so is a test that installs or builds packages, opens a browser or uses root privileges, even where it
// could run: what `make test` does must not depend on the machine.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// All reports whether this run requires everything.
func All() bool { return os.Getenv("REQUIRE_REAL") == "1" }

// Asked skips the test unless the run requires everything. What names what the test uses, such as "a browser".
func Asked(tb testing.TB, what string) {
	tb.Helper()
	if !All() {
		tb.Skipf("%s: runs with REQUIRE_REAL=1 alone", what)
	}
}

// Root is Asked for a test that also needs root privileges.
func Root(tb testing.TB) {
	tb.Helper()
	Asked(tb, "root")
	if os.Geteuid() != 0 {
		Missing(tb, "root: run the test as root")
	}
}

// Program returns the path of a program. Without it, it ends the test. Cure explains how to get the program.
func Program(tb testing.TB, name, cure string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(tb, name+" not found: "+cure)
	}
	return path
}

// Missing skips a test because something is missing, or fails it if the run requires everything. The text states what
// is missing, and how to get it.
func Missing(tb testing.TB, text string) {
	tb.Helper()
	if All() {
		tb.Fatal(text)
	}
	tb.Skip(text)
}
