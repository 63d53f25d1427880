package child

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCgroup_BelowTheMountedOne(t *testing.T) {
	for _, c := range []struct {
		root, own, below string
		inside           bool
	}{
		{"/", "/user/zkr", "user/zkr", true},
		{"/pod", "/pod/c1", "c1", true},
		{"/pod", "/pod", ".", true},
		{"/pod", "/pod2/c1", "", false},
		{"/", "/..odd", "..odd", true},
		{"/", "/../other", "", false}, // outside the namespace
		{"/..", "/x", "", false},
	} {
		below, inside := cgroupBelow(c.root, c.own)
		assert.Equal(t, c.inside, inside, c)
		if inside {
			assert.Equal(t, c.below, below, c)
		}
	}
}

// TestCgroup_HasItsOwn: a group does not match one whose name only starts with its own.
func TestCgroup_HasItsOwn(t *testing.T) {
	assert.True(t, isIn("1:cpu:/a\n0::/user/zkr-12/below\n", "zkr-12"))
	assert.True(t, isIn("0::/zkr-12\n", "zkr-12"))
	assert.False(t, isIn("0::/user/zkr-123\n", "zkr-12"))
	assert.False(t, isIn("", "zkr-12"))
}

// TestCgroup_RemovesTheGroupsOfTheCommand: nothing above the command's group is removed.
func TestCgroup_RemovesTheGroupsOfTheCommand(t *testing.T) {
	above := t.TempDir()
	name := filepath.Join(above, "zkr-1")
	require.NoError(t, os.MkdirAll(filepath.Join(name, "a", "b"), 0o755)) //nolint:gosec // as the kernel does
	openCgroup(name).remove()
	assert.NoDirExists(t, name)
	assert.DirExists(t, above)
}
