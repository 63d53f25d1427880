// Package curator runs a Java process with Curator, so that its recipes and ours can meet on the same znodes.
package curator

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func program() peer.Java {
	_, here, _, _ := runtime.Caller(0)
	return peer.Java{Product: versions.Curator, Source: filepath.Join(filepath.Dir(here), "Peer.java")}
}

// Compile compiles the program into dir, unless that was already done. ZKRECIPES_CURATOR selects the release of
// Curator. Without a compiler or Curator, the test is skipped; with REQUIRE_REAL=1 it fails.
func Compile(tb testing.TB, dir string) {
	tb.Helper()
	program().Compile(tb, dir)
}

// Start runs a peer, compiled into dir, until the end of the test. The given Java properties, such as
// -Dzookeeper.server.realm=X, are added to the default ones.
func Start(tb testing.TB, dir, connect string, session time.Duration, event func(check.Event),
	properties ...string,
) *peer.Peer {
	tb.Helper()
	return program().Start(tb, dir, connect, session, event, properties...)
}
