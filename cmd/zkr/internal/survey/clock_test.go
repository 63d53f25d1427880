package survey

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestReader_AWrongClockOfTheServersMakesNothingStuck: two contenders joined five seconds ago, on servers whose clock
// is twenty minutes behind.
func TestReader_AWrongClockOfTheServersMakesNothingStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, zktest.Run(t, zktest.InMemory()), "one/1")
		for range 2 {
			node(t, c, "/q/"+guid+"lock-", "web1/42")
		}
		time.Sleep(20*time.Minute + 5*time.Second) // as the clocks show it
		wrong := &Reader{Client: c, Stuck: 10 * time.Minute}
		q, err := wrong.Path(t.Context(), "/q")
		require.NoError(t, err)
		require.Contains(t, q.Words, "has waited for 20m5s")
		right := &Reader{
			Client: c, Stuck: 10 * time.Minute,
			Ahead: Clock{Ahead: -20 * time.Minute, Exact: time.Millisecond}.Certain(),
		}
		q, err = right.Path(t.Context(), "/q")
		require.NoError(t, err)
		require.Equal(t, Held, q.Verdict, q.Words)
		require.WithinDuration(t, time.Now().Add(-5*time.Second), q.Waiters[0].Since, time.Minute)
		require.Zero(t, Clock{Ahead: -1500 * time.Millisecond, Exact: 600 * time.Millisecond}.Certain(),
			"the clocks may be the same")
	})
}
