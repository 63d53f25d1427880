package bench

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// counter counts the frames on the connections that it has dialed.
type counter struct {
	mu       sync.Mutex
	requests map[int32]int // by opcode
	events   int
}

const (
	create = 1
	remove = 2
	ping   = 11
	sync9  = 9
)

func (c *counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &counted{Conn: raw, counter: c}, err
}

// take returns the counts since the last call, without pings and syncs.
func (c *counter) take() (requests, writes, events int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for op, n := range c.requests {
		if op != ping && op != sync9 {
			requests += n
		}
	}
	writes, events = c.requests[create]+c.requests[remove], c.events
	c.requests, c.events = map[int32]int{}, 0
	return requests, writes, events
}

// counted is a connection under a counter. The client writes whole frames.
type counted struct {
	net.Conn
	counter *counter
	in      []byte
	greeted bool
}

func (c *counted) Write(frames []byte) (int, error) {
	c.counter.mu.Lock()
	for rest := frames; len(rest) >= 12; rest = rest[4+binary.BigEndian.Uint32(rest):] {
		c.counter.requests[int32(binary.BigEndian.Uint32(rest[8:]))]++
	}
	c.counter.mu.Unlock()
	return c.Conn.Write(frames)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in = append(c.in, p[:n]...)
	for len(c.in) >= 8 {
		size := 4 + int(binary.BigEndian.Uint32(c.in))
		if len(c.in) < size {
			break
		}
		if xid := int32(binary.BigEndian.Uint32(c.in[4:])); c.greeted && xid == -1 { // an event
			c.counter.mu.Lock()
			c.counter.events++
			c.counter.mu.Unlock()
		}
		c.greeted = true
		c.in = c.in[size:]
	}
	return n, err
}

func dial(t *testing.T, addr string) (*conn.Client, *counter) {
	t.Helper()
	c := &counter{requests: map[int32]int{}}
	client, err := conn.Dial(t.Context(), addr, conn.WithDialer(c.dial))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client, c
}

func newMutex(t *testing.T, c *conn.Client) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(c, "/lock")
	require.NoError(t, err)
	return m
}

func lock(t *testing.T, m *mutex.Mutex) *zkrecipes.Hold {
	t.Helper()
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return h
}

func TestUncontended_AtMostFourRequestsTwoOfThemWrites(t *testing.T) {
	client, counted := dial(t, zkserver.Start(t).Addr())
	m := newMutex(t, client)
	require.NoError(t, lock(t, m).Release(t.Context())) // creates the parents
	time.Sleep(100 * time.Millisecond)
	const sections = 20
	least := 100
	for _, work := range []time.Duration{0, 10 * time.Millisecond} {
		counted.take()
		for range sections {
			h := lock(t, m)
			time.Sleep(work)
			require.NoError(t, h.Release(t.Context()))
		}
		requests, writes, _ := counted.take()
		require.Equal(t, 2*sections, writes)
		require.LessOrEqual(t, requests, 4*sections)
		least = min(least, requests)
	}
	t.Logf("%.1f requests for a section that does nothing", float64(least)/sections)
}

func TestRelease_WakesOneClient(t *testing.T) {
	addr := zkserver.Start(t).Addr()
	holder, _ := dial(t, addr)
	h := lock(t, newMutex(t, holder))
	const waiters = 10
	clients, counters := make([]*conn.Client, waiters), make([]*counter, waiters)
	granted := make(chan *zkrecipes.Hold)
	for i := range waiters {
		clients[i], counters[i] = dial(t, addr)
		m := newMutex(t, clients[i])
		go func() {
			got, err := m.Lock(t.Context())
			if err != nil {
				close(granted)
				return
			}
			granted <- got
		}()
		awaitQueue(t, holder, i+2)
	}
	time.Sleep(200 * time.Millisecond) // lets all waiters set their watches and read the holder
	for _, c := range counters {
		c.take()
	}
	woken := 0
	for i := range waiters {
		require.NoError(t, h.Release(t.Context()))
		h = <-granted
		for _, c := range counters {
			_, _, events := c.take()
			woken += events
		}
		// The granted waiter. The event for the released node itself goes to the releasing client, and may arrive
		// later.
		require.LessOrEqual(t, woken, 2*(i+1))
	}
	require.NoError(t, h.Release(t.Context()))
	// Once a sync is answered, a client has received all earlier events.
	for _, c := range clients {
		require.NoError(t, c.Sync(t.Context(), "/lock"))
	}
	for _, c := range counters {
		_, _, events := c.take()
		woken += events
	}
	require.LessOrEqual(t, woken, 2*waiters)
	t.Logf("%d events for %d releases", woken, waiters+1)
}

func awaitQueue(t *testing.T, c *conn.Client, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		names, err := c.Children(t.Context(), "/lock")
		return err == nil && len(names) >= n
	}, 3*time.Minute, 10*time.Millisecond)
}

// TestWaiters_MemoryAndGoroutines measures the cost of ten thousand waiters in one process: heap, and goroutines in
// addition to those of the callers. The stacks of the callers are not on the heap.
func TestWaiters_MemoryAndGoroutines(t *testing.T) {
	client, _ := dial(t, zkserver.Start(t, zkserver.WithJVM("-Xmx512m")).Addr())
	m := newMutex(t, client)
	h := lock(t, m)
	const waiters = 10_000
	before, goroutines := heap(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all, served sync.WaitGroup
	last := make(chan zkrecipes.Token, waiters)
	for range waiters {
		served.Add(1)
		all.Go(func() {
			h, err := m.Lock(ctx)
			served.Done()
			if err != nil {
				t.Error(err)
				return
			}
			last <- h.Token()
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	awaitQueue(t, client, waiters+1)
	var perWaiter, beside float64
	settled := func() bool { // only once the last waiter has read its list, which is on the heap until then
		beside = float64(runtime.NumGoroutine()-goroutines-waiters) / waiters
		perWaiter = float64(heap()-before) / waiters
		return beside <= 0.01 && perWaiter < 4096
	}
	for deadline := time.Now().Add(3 * time.Minute); !settled() && time.Now().Before(deadline); {
		t.Logf("a waiter takes %.0f bytes of heap and %.2f goroutines for now", perWaiter, beside)
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("a waiter takes %.0f bytes of heap and %.2f goroutines beside the caller's own", perWaiter, beside)
	require.Less(t, perWaiter, 4096.0)
	require.LessOrEqual(t, beside, 0.01)
	require.NoError(t, h.Release(t.Context()))
	all.Wait()
	close(last)
	newest := zkrecipes.Token(0)
	for token := range last {
		require.Greater(t, token, newest, "in order")
		newest = token
	}
}

func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
