package awake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBetween(t *testing.T) {
	mu.Lock()
	pauses = nil // of an earlier run
	mu.Unlock()
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) } // outside the life of this process
	note(at(10).Add(-beat), at(13))
	note(at(20).Add(-beat), at(21))
	for _, c := range []struct{ from, to, want int }{
		{0, 5, 5}, {0, 12, 10}, {0, 13, 10}, {11, 12, 0}, {12, 15, 2}, {0, 30, 26}, {14, 19, 5},
	} {
		require.Equal(t, time.Duration(c.want)*time.Second, Between(at(c.from), at(c.to)), "%+v", c)
	}
	note(at(40), at(40).Add(3*beat))
	require.Equal(t, 10*time.Second, Between(at(35), at(45)), "a look that is a little late")
}
