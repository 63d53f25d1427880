package foreign

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// pythonWithKazoo returns a Python that has kazoo.
func pythonWithKazoo(t *testing.T) string {
	t.Helper()
	for _, candidate := range []string{"/usr/bin/python3", "python3"} { // Debian's python finds Debian's modules
		if exec.Command(candidate, "-c", "import kazoo").Run() == nil {
			return candidate
		}
	}
	need.Missing(t, "kazoo not found: apt-get install python3-kazoo")
	return ""
}

func TestKazoo(t *testing.T) {
	python := pythonWithKazoo(t)
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			if out := run(t, "", python, "testdata/kazoo_recipes.py", server.start(t)); !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
