package link

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server announces a frame, and sends little or nothing of it. The memory grows with what has arrived.
func TestReadBody_AnnouncedLength_TakesNoMemory(t *testing.T) {
	for _, sent := range []int{0, 100, 1 << 17} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readBody(bytes.NewReader(make([]byte, sent)), 256<<20)
		runtime.ReadMemStats(&after)
		require.Error(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "%d bytes sent", sent)
	}
	for _, size := range []int{0, 1, unproven - 1, unproven, unproven + 1, 2 * unproven, 5*unproven + 7} {
		want := bytes.Repeat([]byte{1, 2, 3}, size/3+1)[:size]
		got, err := readBody(bytes.NewReader(append(want, 9)), size)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), size)
	}
}

// zeros is a stream of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestReadBody_TakesAThirdMore: whatever the size, the memory that it has outgrown is small.
func TestReadBody_TakesAThirdMore(t *testing.T) {
	for _, size := range []int{64 << 20, 1<<24 + 1, 1 << 24, 1<<22 + 5, 300_000} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body, err := readBody(zeros{}, size)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, body, size)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size)*7/5, size)
	}
}
