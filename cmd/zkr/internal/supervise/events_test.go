//go:build unix

package supervise

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

// TestEvents_AReaderThatStopsDelaysNothing reports more events than a pipe holds, without a reader.
func TestEvents_AReaderThatStopsDelaysNothing(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	fd, err := syscall.Dup(int(write.Fd())) // a descriptor as zkr inherits it
	require.NoError(t, err)
	e, err := newEvents(slog.New(slog.DiscardHandler), fd)
	require.NoError(t, err)
	began := time.Now()
	for range 3 * pending {
		e.say(slog.LevelWarn, "suspect", fields{"valid_until": "2026-01-01T00:00:00.000000000Z"}, "no server")
	}
	e.close()
	assert.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, read.Close()) // unblocks the pending write
	<-e.ended
	require.NoError(t, write.Close())
}

// A descriptor that the caller has closed may be one that this process uses itself.
func TestEvents_RefuseADescriptorThatIsNotInherited(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, errors.Join(read.Close(), write.Close())) }()
	for _, fd := range []int{987, int(write.Fd())} {
		_, err := newEvents(slog.New(slog.DiscardHandler), fd)
		code, _ := exit.Status(err)
		assert.Equal(t, exit.Usage, code)
	}
}
