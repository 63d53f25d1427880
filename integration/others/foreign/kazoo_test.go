package foreign

import (
	"strings"
	"testing"
)

func TestKazoo(t *testing.T) {
	interpreter := python(t, "kazoo", "apt-get install python3-kazoo")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			if out := run(t, "", interpreter, "testdata/kazoo_recipes.py", server.start(t)); !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
