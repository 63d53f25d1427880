package discovery

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// inDubbo registers an instance whose node has all its properties in its name, so each Update replaces the node.
func inDubbo(t *testing.T, client *conn.Client) *Registration {
	t.Helper()
	d, err := New(client, "/services", WithCodec(Dubbo()))
	require.NoError(t, err)
	r, err := d.Register(t.Context(), Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
	require.NoError(t, err)
	return r
}

// Each Update that failed left the path of its node in memory, even after the removal of that node.
func TestUpdate_ManyFail_OnlyWhatIsBeingRemovedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		r := inDubbo(t, bubble.Dial(t, srv, "a"))
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		tooLong := errors.New("too long")
		for i := range 100 {
			changed := r.Instance()
			changed.Metadata["weight"] = fmt.Sprint(i)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, tooLong)
			require.ErrorIs(t, r.Update(ctx, changed), tooLong)
			cancel()
			time.Sleep(time.Minute)
		}
		require.Len(t, r.vain, 1)
		srv.Accept(zktest.Label("a"))
		require.NoError(t, r.Close(t.Context()))
		require.Empty(t, srv.Children("/services/org.Orders/providers"))
	})
}

// The servers refuse each removal at first.
func TestUpdate_ManyRemovalsFail_OnlyWhatIsBeingRemovedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		r := inDubbo(t, bubble.Dial(t, srv, "a"))
		for i := range 10 {
			changed := r.Instance()
			changed.Metadata["weight"] = fmt.Sprint(i)
			srv.Intercept(zktest.Match{Op: zktest.OpDelete}, zktest.Fail(zktest.CodeNoAuth))
			require.ErrorIs(t, r.Update(t.Context(), changed), zk.ErrNoAuth)
			time.Sleep(time.Minute)
		}
		require.Len(t, r.before, 1)
		require.Len(t, srv.Children("/services/org.Orders/providers"), 1)
		require.NoError(t, r.Close(t.Context()))
		require.Empty(t, srv.Children("/services/org.Orders/providers"))
	})
}
