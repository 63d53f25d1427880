//go:build unix

package fence

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// access returns the mode bits, owner and group of a file.
func access(t *testing.T, path string) [3]uint32 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	return [3]uint32{uint32(info.Mode().Perm()), stat.Uid, stat.Gid}
}

// The file keeps its mode and owner when it is opened and when it is rewritten, even by root, who may write all files.
func TestFile_KeepsItsModeAndOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	require.NoError(t, f.Close())
	require.Equal(t, uint32(0o600), access(t, path)[0])
	want := [3]uint32{0o640, uint32(os.Getuid()), uint32(os.Getgid())} //nolint:gosec // of a user
	if os.Getuid() == 0 {
		want[1], want[2] = 12345, 23456
		require.NoError(t, os.Chown(path, 12345, 23456))
	}
	require.NoError(t, os.Chmod(path, 0o640))

	f = openFile(t, path)
	assert.Equal(t, want, access(t, path), "opened")
	assert.Equal(t, want, access(t, path+".lock"), "or the owner could not open it")
	f.records = rewriteFrom
	raise(t, f, "a", 6, 6)
	require.Equal(t, 1, f.records)
	assert.Equal(t, want, access(t, path), "written anew")
}

// Another user may put links at the names of the lock file and the temporary file. Their targets are left alone.
func TestFile_LinksInASharedDirectory(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "tokens"), filepath.Join(dir, "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644)) //nolint:gosec // of another program
	untouched := func() {
		t.Helper()
		content, err := os.ReadFile(victim)
		require.NoError(t, err)
		require.Equal(t, "precious", string(content))
		require.Equal(t, uint32(0o644), access(t, victim)[0])
	}
	link(t, victim, path+".tmp")
	f := openFile(t, path)
	raise(t, f, "a", 5, 5)
	untouched()
	for token := zkrecipes.Token(6); token < 8; token++ {
		link(t, victim, path+".tmp")
		f.records = rewriteFrom
		raise(t, f, "a", token, token)
		untouched()
	}
	require.NoError(t, f.Close())

	require.NoError(t, os.Remove(path+".lock"))
	for _, target := range []string{victim, filepath.Join(dir, "nothing")} {
		link(t, target, path+".lock")
		_, err := OpenFile(t.Context(), path)
		require.ErrorContains(t, err, path+".lock")
		untouched()
		require.NoFileExists(t, filepath.Join(dir, "nothing"))
		require.NoError(t, os.Remove(path+".lock"))
	}
	require.NoError(t, os.WriteFile(path+".tmp", []byte("of a crash"), 0o600))
	raise(t, openFile(t, path), "a", 1, 7)
}
