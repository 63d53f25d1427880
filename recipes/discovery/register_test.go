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

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Each Update that failed left the path of its node in memory, even after the removal of that node.
func TestUpdate_ManyFail_OnlyWhatIsBeingRemovedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		d, err := New(bubble.Dial(t, srv, "a"), "/services", WithCodec(Dubbo()))
		require.NoError(t, err)
		r, err := d.Register(t.Context(), Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
		require.NoError(t, err)
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
		d, err := New(bubble.Dial(t, srv, "a"), "/services", WithCodec(Dubbo()))
		require.NoError(t, err)
		r, err := d.Register(t.Context(), Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
		require.NoError(t, err)
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
