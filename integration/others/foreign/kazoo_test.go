package foreign

import (
	"strings"
	"testing"
)

func TestKazoo(t *testing.T) {
	interpreter := python(t, "kazoo", "apt-get install python3-kazoo")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			out := run(t, "", interpreter, "testdata/kazoo_recipes.py", server.start(t))
			if !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
