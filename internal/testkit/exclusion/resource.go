//go:build linux

package exclusion

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// resource is guarded by a fence. Each line from a client is its token, and one use of the resource.
type resource struct {
	address string
	gate    *fence.Gate
	mu      sync.Mutex // Admit and the use are one atomic step
	uses    []int64    // the tokens
}

func newResource(t *testing.T) *resource {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &resource{address: l.Addr().String(), gate: fence.New(fence.NewMemory())}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, l.Close())
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(ctx, c) })
		}
	})
	return r
}

func (r *resource) serve(ctx context.Context, c net.Conn) {
	defer c.Close() //nolint:errcheck // the client may have ended it
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		token, _ := strconv.ParseInt(lines.Text(), 10, 64)
		_, _ = fmt.Fprintln(c, r.use(ctx, token)) // the client may have exited
	}
}

func (r *resource) use(ctx context.Context, token int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate.Admit(ctx, "resource", zkrecipes.Token(token)) != nil {
		return "refused"
	}
	r.uses = append(r.uses, token)
	return "admitted"
}

func (r *resource) admitted() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.uses)
}
