package peer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Java is a program in a single file, Peer.java, whose main class is Peer.
type Java struct {
	Product versions.Product // the product whose jars it needs
	Source  string
}

// Compile compiles the program into dir, unless that was already done. Without a compiler or the product, the test is
// skipped; with REQUIRE_REAL=1 it fails.
func (j Java) Compile(tb testing.TB, dir string) {
	tb.Helper()
	jars, err := j.Product.ClassPath("")
	if err == nil {
		_, err = exec.LookPath("javac")
	}
	if err != nil {
		need.Missing(tb, err.Error())
	}
	tb.Logf("class path of %s: %s", j.Product, jars)
	if _, err := os.Stat(filepath.Join(dir, "Peer.class")); err == nil {
		return
	}
	if out, err := exec.Command("javac", "-cp", jars, "-d", dir, j.Source).CombinedOutput(); err != nil {
		tb.Fatalf("javac: %v\n%s", err, out)
	}
}

// Start runs the program, compiled into dir, until the end of the test. The given Java properties, such as
// -Dzookeeper.server.realm=X, are added to the default ones.
func (j Java) Start(tb testing.TB, dir, connect string, session time.Duration, event func(check.Event),
	properties ...string,
) *Peer {
	tb.Helper()
	jars, err := j.Product.ClassPath("")
	if err != nil {
		tb.Fatal(err)
	}
	args := append([]string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}, properties...)
	args = append(args, "-cp", dir+":"+jars, "Peer", connect, strconv.FormatInt(session.Milliseconds(), 10))
	return Start(tb, exec.Command("java", args...), event)
}
