// Package foreign runs third-party programs against zktest, and against a real server to prove that each program's test
// is right.
package foreign

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// servers are the servers for every program. Both allow nodes with a TTL.
var servers = []struct {
	name  string
	start func(t *testing.T) (addr string)
}{{"zktest", startZktest}, {"zookeeper", startReal}}

func startZktest(t *testing.T) string {
	t.Helper()
	return zktest.Run(t, zktest.WithExtendedTypes()).Addr()
}

func startReal(t *testing.T) string {
	t.Helper()
	return zkserver.Start(t, zkserver.WithTickTime(2*time.Second),
		zkserver.WithProperty("zookeeper.extendedTypesEnabled", "true")).Addr()
}

// run runs a program to its successful end, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := fetching(func() *exec.Cmd { return exec.CommandContext(ctx, name, args...) })
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// unfetched matches what Maven and pip print when a registry has not answered.
var unfetched = regexp.MustCompile(
	`Could not transfer|could not be resolved|Could not resolve|Max retries exceeded|ReadTimeoutError|connection broken by`)

// fetching runs a command, up to three times if it could not fetch something, because a registry may occasionally be
// slow.
func fetching(command func() *exec.Cmd) (out []byte, err error) {
	for tries := 1; ; tries++ {
		if out, err = command().CombinedOutput(); err == nil || tries == 3 || !unfetched.Match(out) {
			return out, err
		}
		time.Sleep(5 * time.Second)
	}
}

func exists(paths ...string) bool {
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return false
		}
	}
	return true
}
