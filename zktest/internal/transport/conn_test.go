package transport

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPause_OfNoTime uses many connections at once. Under the race detector, timers that are already due crash this
// test.
func TestPause_OfNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()   //nolint:errcheck // nothing was written
		defer theirs.Close() //nolint:errcheck // nothing was written
		c := New(ours, new(Gate), nil, nil)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for range 2000 {
					assert.True(t, c.Pause(0))
				}
			})
		}
		all.Wait()
		c.End(Abrupt)
		require.False(t, c.Pause(0))
	})
}
