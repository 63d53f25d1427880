package foreign

import (
	"os/exec"
	"strings"
	"testing"
)

func TestKazoo(t *testing.T) {
	python := ""
	for _, candidate := range []string{"/usr/bin/python3", "python3"} { // Debian's python finds Debian's modules
		if exec.Command(candidate, "-c", "import kazoo").Run() == nil {
			python = candidate
			break
		}
	}
	if python == "" {
		missing(t, "kazoo", "apt-get install python3-kazoo")
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			if out := run(t, "", python, "testdata/kazoo_recipes.py", server.start(t)); !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
