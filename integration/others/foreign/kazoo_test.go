package foreign

import "testing"

// TestKazoo runs kazoo's double barrier, whose clients may wait for each other forever: see docs/tested.md.
func TestKazoo(t *testing.T) {
	interpreter := python(t, "kazoo", "apt-get install python3-kazoo")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			run(t, interpreter, "testdata/kazoo_recipes.py", server.start(t))
		})
	}
}
