// Package playground tests the page of docs/playground in a browser.
package playground

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/integration/kit/browser"
)

// built returns the directory of the page, which all tests share.
var built = sync.OnceValues(func() (string, error) {
	directory, err := os.MkdirTemp("", "playground")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("../../docs/playground/build.sh", directory).CombinedOutput()
	if err != nil {
		return directory, fmt.Errorf("%w: %s", err, out)
	}
	return directory, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if directory, _ := built(); directory != "" {
		_ = os.RemoveAll(directory) // the system removes it as well
	}
	os.Exit(code)
}

// tab is the page in a browser.
type tab struct{ *browser.Tab }

// open opens the page with a fragment. A nil handler serves the page as built.
func open(t *testing.T, handler http.Handler, fragment string) *tab {
	t.Helper()
	directory, err := built()
	require.NoError(t, err)
	if handler == nil {
		handler = http.FileServer(http.Dir(directory))
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	p := &tab{browser.Open(t, server.URL+"/"+fragment)}
	t.Cleanup(func() {
		require.Empty(t, browser.Evaluate[[]string](p.Tab, `playground.errors`), "the scripts of the page")
	})
	return p
}

// scene starts the world of a link, with its clock stopped.
func (p *tab) scene(hash string) {
	p.Helper()
	browser.Evaluate[bool](p.Tab,
		fmt.Sprintf(
			`history.replaceState(null, '', %q); playground.begin().then(() => { playground.play(false); playground.mine = %q; }); true`, hash, hash))
	p.Await(fmt.Sprintf(`playground.ready && playground.mine === %q`, hash))
}

// look sets the size of the window and the color scheme, and draws the page.
func (p *tab) look(width, height int64, dark bool) {
	p.Helper()
	p.Look(width, height, dark)
	browser.Evaluate[bool](p.Tab, `playground.show(); true`)
}

// shown is the directory for the pictures in the documents: PLAYGROUND_PICTURES=directory.
var shown = os.Getenv("PLAYGROUND_PICTURES")
