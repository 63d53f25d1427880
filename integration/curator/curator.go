// Package curator runs a Java process with Curator in it, so that its recipes and ours can meet on the same znodes.
package curator

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/peer"
	"github.com/zkrecipes/zkrecipes/integration/versions"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Compile compiles the program into dir, unless it is there already. ZKRECIPES_CURATOR chooses the release of Curator. If
// there is no compiler or no Curator, the test is skipped; with REQUIRE_REAL=1 it fails.
func Compile(tb testing.TB, dir string) {
	tb.Helper()
	jars, err := versions.Curator.ClassPath("")
	if err == nil {
		_, err = exec.LookPath("javac")
	}
	if err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	tb.Log("class path of Curator:", jars)
	if _, err := os.Stat(filepath.Join(dir, "Peer.class")); err == nil {
		return
	}
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "Peer.java")
	if out, err := exec.Command("javac", "-cp", jars, "-d", dir, source).CombinedOutput(); err != nil {
		tb.Fatalf("javac: %v\n%s", err, out)
	}
}

// Start runs a peer, compiled into dir, until the end of the test.
func Start(tb testing.TB, dir, connect string, session time.Duration, event func(check.Event)) *peer.Peer {
	tb.Helper()
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		tb.Fatal(err)
	}
	return peer.Start(tb, exec.Command("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-cp", dir+":"+jars, "Peer", connect, strconv.FormatInt(session.Milliseconds(), 10)), event)
}
