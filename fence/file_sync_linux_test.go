package fence

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing is admitted before it is on disk. On Linux, fsync of a pipe, a character device or a directory of /proc
// fails, while a write does not.
func TestFile_NothingIsAdmittedThatIsNotOnTheDisk(t *testing.T) {
	f := openFile(t, filepath.Join(t.TempDir(), "tokens"))
	raise(t, f, "a", 5, 5)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = out.Close() }() // it was only read
	require.NoError(t, f.log.Close())
	f.log = in
	_, err = f.Raise(t.Context(), "a", 6)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = f.Raise(t.Context(), "a", 5)
	require.ErrorIs(t, err, syscall.EINVAL, "until it is opened again")

	f = openFile(t, filepath.Join(t.TempDir(), "tokens"))
	require.NoError(t, f.log.Close())
	f.log, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Raise(t.Context(), "a", 6)
	require.ErrorIs(t, err, syscall.ENOSPC)

	for device, says := range map[string]error{os.DevNull: syscall.EINVAL, "/dev/full": syscall.ENOSPC} {
		file, err := os.OpenFile(device, os.O_WRONLY, 0)
		require.NoError(t, err)
		require.ErrorIs(t, writeSynced(file, []byte("x")), says)
		require.ErrorIs(t, file.Close(), os.ErrClosed)
	}
	require.Error(t, syncDir("/proc"))
}

// Close reports an error, because another part of the program has closed the descriptor.
func TestFile_CannotBeClosed(t *testing.T) {
	f, err := OpenFile(t.Context(), filepath.Join(t.TempDir(), "tokens"))
	require.NoError(t, err)
	require.NoError(t, syscall.Close(int(f.log.Fd())))
	require.ErrorIs(t, f.Close(), syscall.EBADF)
}

// To open a named pipe would take until another process opens its other end, however long that takes.
func TestOpenFile_NamedPipe_IsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := OpenFile(t.Context(), path)
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoFileExists(t, path+".lock")
}
