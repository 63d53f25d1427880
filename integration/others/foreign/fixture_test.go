package foreign

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// The fixtures for other languages run here, each in the ten lines of a project, with a zktestd built for it.

func buildZktestd(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "zktestd")
	run(t, "go", "build", "-o", program, "github.com/zkrecipes/zkrecipes/cmd/zktestd")
	return program
}

// runFixture runs a test runner, whose exit status is the verdict.
func runFixture(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first time, Maven fetches for a while
	defer cancel()
	env = append(os.Environ(), append(env, "ZKTESTD="+buildZktestd(t))...)
	if out, err := fetching(func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

func TestPytestFixture(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "pytest, kazoo", "apt-get install python3-pytest python3-kazoo")
	dir, err := filepath.Abs("../../../zktest/python")
	if err != nil {
		t.Fatal(err)
	}
	runFixture(t, dir, []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"},
		interpreter, "-m", "pytest", "-q", "-p", "pytest_zktest", "-p", "no:cacheprovider")
}

func TestJUnitExtension(t *testing.T) {
	t.Parallel()
	need.Program(t, "mvn", "apt-get install maven default-jdk-headless")
	runFixture(t, "../../../zktest/java", nil, "mvn", "-q", "-B", "test")
}
