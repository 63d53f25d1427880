// Package zkr runs the command zkr against real servers.
package zkr

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// directory is where the tests build programs.
var directory string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "zkr-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	directory = dir
	_ = flag.Set("test.parallel", "7") // the tests mostly wait for sessions to expire
	code := m.Run()
	_ = os.RemoveAll(dir) // a directory left in /tmp is not a failure
	os.Exit(code)
}

// build builds zkr, once. It is a separate module, and is built as its own tests are.
var build = sync.OnceValues(func() (string, error) {
	program := filepath.Join(directory, "zkr")
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = "../../cmd/zkr"
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build cmd/zkr: %w: %s", err, out)
	}
	return program, nil
})

// program returns a function that prepares zkr.
func program(t *testing.T) func(context.Context, ...string) *exec.Cmd {
	t.Helper()
	name, err := build()
	require.NoError(t, err)
	return func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, name, args...) }
}
