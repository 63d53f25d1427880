//go:build unix

package runs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The disk of the metrics file hung. The run was not supervised, because it waited for the file.
func TestWrite_FileHangs_RunsDoNotWait(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.prom")
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	j := New("job", file, true)
	written := make(chan error, 1)
	go func() { written <- j.Write() }()
	var end *os.File
	require.Eventually(t, func() (opened bool) { // once the file is being read
		var err error
		end, err = os.OpenFile(file, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	}, time.Minute, time.Millisecond)
	started := make(chan struct{})
	go func() { j.Started(time.Now()); close(started) }()
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Error("Started waits for the file")
	}
	require.NoError(t, end.Close())
	require.NoError(t, <-written)
}
