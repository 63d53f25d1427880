package foreign

import (
	"os/exec"
	"strings"
	"testing"
)

func TestKazoo(t *testing.T) {
	python := ""
	for _, candidate := range []string{"/usr/bin/python3", "python3"} { // Debian's modules are found by Debian's python
		if exec.Command(candidate, "-c", "import kazoo").Run() == nil {
			python = candidate
			break
		}
	}
	if python == "" {
		missing(t, "kazoo", "apt-get install python3-kazoo")
	}
	onEach(t, func(t *testing.T, addr string) {
		if out := run(t, "", python, "testdata/kazoo_recipes.py", addr); !strings.HasSuffix(out, "all passed\n") {
			t.Errorf("it ended early:\n%s", out)
		}
	})
}
