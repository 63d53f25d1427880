package dividing

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest"
)

var partitions = []string{"p0", "p1", "p2", "p3", "p4", "p5"}

// crew is a set of processes, and which of them last handled a record of each partition.
type crew struct {
	*testing.T
	srv     *zktest.Server
	offsets *Offsets

	mu   sync.Mutex
	last map[string]string
}

// start runs a process with its own client. stop stops the process and waits until it has ended.
func (c *crew) start(id string) (stop func()) {
	client, err := conn.Dial(c.Context(), c.srv.Addr(), conn.WithDialer(c.srv.DialAs(id)),
		conn.WithSessionTimeout(10*time.Second))
	require.NoError(c, err)
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- Work(ctx, client, id, partitions, c.handle(id), c.offsets) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(c, <-ended)
		require.NoError(c, client.Close())
	})
	c.Cleanup(stop)
	return stop
}

func (c *crew) handle(id string) Handler {
	return func(ctx context.Context, partition string, _ int) error {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last[partition] = id
		return nil
	}
}

// shares returns how many partitions each process handles in the next second.
func (c *crew) shares() map[string]int {
	c.mu.Lock()
	clear(c.last)
	c.mu.Unlock()
	time.Sleep(time.Second)
	c.mu.Lock()
	defer c.mu.Unlock()
	shares := map[string]int{}
	for _, id := range c.last {
		shares[id]++
	}
	return shares
}

func TestWork_EachPartitionHasOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crew{T: t, srv: zktest.Run(t, zktest.InMemory()), last: map[string]string{}}
		c.offsets = &Offsets{gate: fence.New(fence.NewMemory()), next: map[string]int{}}
		c.start("a")
		stopB := c.start("b")
		c.start("c")
		time.Sleep(5 * time.Second)
		require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, c.shares())

		stopB() // it hands over
		require.Equal(t, map[string]int{"a": 3, "c": 3}, c.shares(), "not after the session timeout")

		c.srv.Stall(zktest.Label("c"), zktest.Both) // like a crash: its session expires
		time.Sleep(20 * time.Second)
		require.Equal(t, map[string]int{"a": 6}, c.shares())

		c.srv.Heal(zktest.Label("c"))
		time.Sleep(20 * time.Second)
		require.Equal(t, map[string]int{"a": 3, "c": 3}, c.shares(), "it joined again")
	})
}

// The context ends before there is anything to hand over.
func TestWork_AskedToStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs("a")))
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = Work(ctx, client, "a", partitions, (&crew{}).handle("a"), nil)
		if err != nil { // it had not started
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestOffsets_RefuseAnEarlierOwner(t *testing.T) {
	o := &Offsets{gate: fence.New(fence.NewMemory()), next: map[string]int{}}
	require.NoError(t, o.Set(t.Context(), "p0", 7, 40))
	next, err := o.Get(t.Context(), "p0", 9)
	require.NoError(t, err)
	require.Equal(t, 40, next)
	require.ErrorIs(t, o.Set(t.Context(), "p0", 7, 41), fence.ErrStale)
}
