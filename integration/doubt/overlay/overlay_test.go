package overlay_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/doubt/overlay"
)

// Two edits of one file both apply, a file is added, and the sources do not change.
func TestWrite(t *testing.T) {
	root := t.TempDir()
	main := "package main\n\nfunc main() { print(1, 2) }\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "main.go"), []byte(main), 0o600))
	spec, err := overlay.Write(t.TempDir(), root,
		[]overlay.Edit{{File: "main.go", Old: "1", New: "x"}, {File: "main.go", Old: "2", New: "x+1"}},
		map[string][]byte{"x.go": []byte("package main\n\nconst x = 3\n")})
	require.NoError(t, err)
	run := exec.Command("go", "run", "-overlay", spec, ".")
	run.Dir = root
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "34", string(out))
	unchanged, err := os.ReadFile(filepath.Join(root, "main.go"))
	require.NoError(t, err)
	require.Equal(t, main, string(unchanged))

	for _, old := range []string{"3", "p"} { // missing, and ambiguous
		_, err = overlay.Write(t.TempDir(), root, []overlay.Edit{{File: "main.go", Old: old}}, nil)
		require.ErrorContains(t, err, "adapt the edit to the code")
	}
}
