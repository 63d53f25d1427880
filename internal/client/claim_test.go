package client

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

type one struct{ value *int }

type two struct{ value *int }

// TestShared: by type, path on the server and kind of use, for a client and its subs.
func TestShared(t *testing.T) {
	t.Parallel()
	c := &Client{core: &core{states: newStateLog(), shared: make(map[any]any)}}
	sub, err := c.Sub("/app")
	require.NoError(t, err)
	mine := Shared[one](c, "/app/a", "x")
	mine.value = new(int)
	require.Same(t, mine, Shared[one](c, "/app/a", "x"))
	require.Same(t, mine, Shared[one](sub, "/a", "x"))
	require.NotSame(t, mine, Shared[one](sub, "/a", "y"))
	require.NotSame(t, mine, Shared[one](sub, "/app/a", "x"))
	require.Nil(t, Shared[two](c, "/app/a", "x").value)
	require.Same(t, mine, Shared[one](c, "/app/a", "x"))
	runtime.KeepAlive(mine)
}

// TestShared_Forgets: of a hundred thousand paths that were used once each, nothing is left. What is used is not forgotten.
func TestShared_Forgets(t *testing.T) {
	t.Parallel()
	c := &Client{core: &core{shared: make(map[any]any)}}
	kept := Shared[one](c, "/kept", "")
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := range 25_000 {
				Shared[one](c, fmt.Sprintf("/path-%d-%d", part%2, i/2), "") // some are made again
			}
		})
	}
	all.Wait()
	left := func() int {
		c.core.mu.Lock()
		defer c.core.mu.Unlock()
		return len(c.core.shared)
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return left() == 1
	}, time.Minute, time.Millisecond)
	require.Same(t, kept, Shared[one](c, "/kept", ""))
}

// TestShared_ForgetsNoOther: the value was made anew before the runtime told that the first has gone.
func TestShared_ForgetsNoOther(t *testing.T) {
	t.Parallel()
	c := &Client{core: &core{shared: make(map[any]any)}}
	newer := Shared[one](c, "/a", "")
	sharedEntry{weak.Make(c.core), sharedKey[one]{"/a", ""}, "an older one"}.forget()
	require.Same(t, newer, Shared[one](c, "/a", ""))
}

// TestShared_KeepsNoClient: a callback that is never called keeps the value, and the client keeps the callback. When nobody has the client
// any more, all of them go.
func TestShared_KeepsNoClient(t *testing.T) {
	t.Parallel()
	gone := func() weak.Pointer[core] {
		c := &Client{core: &core{shared: make(map[any]any)}}
		v := Shared[one](c, "/a", "")
		c.core.shared["a callback"] = func() { v.value = nil }
		return weak.Make(c.core)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return gone.Value() == nil
	}, time.Minute, time.Millisecond)
}
