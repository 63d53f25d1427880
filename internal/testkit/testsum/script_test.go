//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module returns the directory of a module with one test.
func module(t *testing.T, test string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.24\n",
		"m_test.go": "package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestM(t *testing.T) {\n\t" + test + "\n}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func script(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "../../../tools/test.sh", args...).CombinedOutput()
	require.Error(t, err, "%s", output)
	return string(output)
}

// TestScript_ShowsEachFailure: the modules run concurrently, and the one that fails last prints most.
func TestScript_ShowsEachFailure(t *testing.T) {
	early := module(t, `t.Fatal("failed", "early", time.Second)`)
	late := module(t, `time.Sleep(2 * time.Second); for range 20 { t.Log("much to read") }; t.Fatal("failed", "late")`)
	output := script(t, early+" ./...", late+" ./...")
	assert.Contains(t, output, "failed early 1s")
	assert.Contains(t, output, "failed late")
	assert.Contains(t, output, "\n2 failed\n")
}

func TestScript_ShowsWhatFailedWithoutATest(t *testing.T) {
	output := script(t, t.TempDir()+" -parallel=x")
	assert.Contains(t, output, "no test failed, but go test did:\ngo -C /")
	assert.Contains(t, output, "-parallel=x: exit status 2\ninvalid value")
}
