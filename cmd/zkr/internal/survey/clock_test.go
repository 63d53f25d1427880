package survey

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// slowClock is a queue of two contenders that joined five seconds ago, on servers whose clock is twenty minutes behind.
type slowClock struct{}

func (slowClock) Sync(context.Context, string) error { return nil }

func (slowClock) Children(_ context.Context, path string) ([]string, error) {
	if path != "/q" {
		return nil, zk.ErrNoNode
	}
	return []string{"a-lock-0000000001", "b-lock-0000000002"}, nil
}

func (slowClock) Get(context.Context, string) ([]byte, zk.Stat, error) {
	at := time.Now().Add(-20*time.Minute - 5*time.Second).UnixMilli()
	return []byte("web1/42"), zk.Stat{Ctime: at, Mtime: at, EphemeralOwner: 7}, nil
}

func TestReader_AWrongClockOfTheServersMakesNothingStuck(t *testing.T) {
	wrong := &Reader{Client: slowClock{}, Stuck: 10 * time.Minute}
	q, err := wrong.Path(t.Context(), "/q")
	require.NoError(t, err)
	require.Contains(t, q.Words, "has waited for 20m5s")
	right := &Reader{
		Client: slowClock{}, Stuck: 10 * time.Minute,
		Ahead: Clock{Ahead: -20 * time.Minute, Exact: time.Millisecond}.Certain(),
	}
	q, err = right.Path(t.Context(), "/q")
	require.NoError(t, err)
	require.Equal(t, Held, q.Verdict, q.Words)
	require.WithinDuration(t, time.Now().Add(-5*time.Second), q.Waiters[0].Since, time.Minute)
	require.Zero(t, Clock{Ahead: -1500 * time.Millisecond, Exact: 600 * time.Millisecond}.Certain(),
		"the clocks may be the same")
}
