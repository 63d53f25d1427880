package foreign

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// A program that moves from go-zookeeper's Lock to package mutex can do so one process at a time: both exclude each
// other on one path.
func TestMigration_LockAndMutexExcludeEachOther(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			const each, rounds = 3, 20
			addr := server.start(t)
			connect(t, addr) // waits until the server serves
			var inside, sections atomic.Int32
			section := func() {
				if inside.Add(1) != 1 {
					t.Error("two holders at once")
				}
				sections.Add(1)
				inside.Add(-1)
			}
			var locks sync.WaitGroup
			for range each {
				c := connect(t, addr)
				locks.Go(func() {
					for range rounds {
						l := zk.NewLock(c, "/moving/lock", open)
						if err := l.Lock(); err != nil {
							t.Error("Lock:", err)
							return
						}
						section()
						if err := l.Unlock(); err != nil {
							t.Error("Unlock:", err)
							return
						}
					}
				})
				m := mutexOn(t, addr)
				locks.Go(func() {
					for range rounds {
						h, err := m.Lock(t.Context())
						if err != nil {
							t.Error("mutex:", err)
							return
						}
						section()
						if err := h.Release(t.Context()); err != nil {
							t.Error("release:", err)
							return
						}
					}
				})
			}
			locks.Wait()
			require.EqualValues(t, 2*each*rounds, sections.Load())
		})
	}
}

// Each library waits for a holder of the other, and the mutex names the holder by the data that zk.Lock wrote.
func TestMigration_EachWaitsForTheOther(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			c, m := connect(t, addr), mutexOn(t, addr)
			old := zk.NewLock(c, "/moving/lock", open)
			require.NoError(t, old.LockWithData([]byte("old program")))
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, zkrecipes.ErrLocked)
			require.ErrorContains(t, err, "old program")

			granted := make(chan error, 1)
			go func() {
				h, err := m.Lock(t.Context())
				if err == nil {
					// The old library must now wait for the hold.
					names, _, listErr := c.Children("/moving/lock")
					if listErr != nil || len(names) != 1 || !strings.HasPrefix(names[0], "_c_") {
						t.Errorf("want the mutex's contender alone, got %q, %v", names, listErr)
					}
					err = h.Release(t.Context())
				}
				granted <- err
			}()
			require.NoError(t, old.Unlock())
			require.NoError(t, <-granted)
			require.NoError(t, old.Lock())
			require.NoError(t, old.Unlock())
		})
	}
}

func mutexOn(t *testing.T, addr string) *mutex.Mutex {
	t.Helper()
	client, err := conn.Dial(t.Context(), addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it never fails
	m, err := mutex.New(client, "/moving/lock")
	require.NoError(t, err)
	return m
}

var open = zk.WorldACL(zk.PermAll)

// connect opens a session of go-zookeeper.
func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return c
}
