package znode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestAcquire_NamesThatContainTheBase_AreNoContenders: other locks below the path, and other nodes, have such names.
func TestAcquire_NamesThatContainTheBase_AreNoContenders(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q, other := queue(t, srv, "a"), bubble.Dial(t, srv, "b")
		section(t, q)
		for _, name := range []string{
			"clock-sync", "deadlock-detector", "lock-0", "lock-", "lock-00000000001", "job-0000000001",
		} {
			_, err := srv.Create(path+"/"+name, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		_, err := srv.Create(path+"/shard-0000000002", nil, zktest.Container)
		require.NoError(t, err)
		for _, name := range []string{"lock-7", "job-123456789", "123456789"} {
			_, err = other.Create(t.Context(), path+"/"+name, nil, zk.FlagEphemeral)
			require.NoError(t, err)
		}
		h, err := q.Try(t.Context(), entry)
		require.NoError(t, err)
		release(t, h)
		h = acquire(t.Context(), q).Granted(t, time.Hour)
		list, err := q.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		release(t, h)
	})
}

// TestAcquire_ForeignContender_IsAnErrorThatNamesIt: kazoo's lock and this one would not wait for each other.
func TestAcquire_ForeignContender_IsAnErrorThatNamesIt(t *testing.T) {
	for _, name := range []string{"5a3b0c__lock__", "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-latch-"} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			q, other := queue(t, srv, "a"), bubble.Dial(t, srv, "b")
			section(t, q)
			foreign, err := other.Create(t.Context(), path+"/"+name, nil, zk.FlagEphemeral|zk.FlagSequence)
			require.NoError(t, err)
			for _, acquire := range []func() (*zkrecipes.Hold, error){
				func() (*zkrecipes.Hold, error) { return q.Acquire(t.Context(), entry) },
				func() (*zkrecipes.Hold, error) { return q.Try(t.Context(), entry) },
			} {
				_, err := acquire()
				require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
				require.ErrorContains(t, err, foreign)
				require.Equal(t, strings.Contains(name, "__lock__"), strings.Contains(err.Error(), "WithKazoo"), err)
				require.Len(t, srv.Children(path), 1)
			}
			before := srv.Zxid()
			_, err = q.Try(t.Context(), entry)
			require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
			require.Equal(t, before, srv.Zxid(), "a try finds out before it writes")
			require.NoError(t, srv.Delete(foreign))
			section(t, q)
			requireEmpty(t, srv)
		})
	}
}

// TestAcquire_ForeignContenderComesWhileWaiting: the waiter finds out when it reads the list again, and leaves the
// queue. An armed waiter does not read it again.
func TestAcquire_ForeignContenderComesWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "a")).Granted(t, time.Hour)
		other := bubble.Dial(t, srv, "b")
		second := acquire(t.Context(), queue(t, srv, "d"))
		second.Waits(t)
		waiting := acquire(t.Context(), queue(t, srv, "c"))
		waiting.Waits(t)
		foreign, err := other.Create(t.Context(), path+"/5a3b0c__lock__", nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		waiting.Waits(t)
		release(t, holder)
		if !second.Over() || second.Err == nil {
			release(t, second.Granted(t, 0))
		}
		err = waiting.Failed(t, 0)
		require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
		require.ErrorContains(t, err, foreign)
		require.Len(t, srv.Children(path), 1)
	})
}

// TestQueue_ForeignContender_IsNotListed: holders and waiters can still be listed.
func TestQueue_ForeignContender_IsNotListed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q := queueOf(t, srv, "a", znode.Latch)
		h := acquire(t.Context(), queue(t, srv, "b")).Granted(t, time.Hour)
		list, err := q.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)
		release(t, h)
	})
}

// TestAcquire_ForeignContenderCannotBeRead: it may hold what the caller tries to acquire, so nothing is granted.
func TestAcquire_ForeignContenderCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		q, other := queue(t, srv, "a"), bubble.Dial(t, srv, "b")
		section(t, q)
		foreign, err := other.Create(t.Context(), path+"/5a3b0c__lock__", nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		for _, acquire := range []func() (*zkrecipes.Hold, error){
			func() (*zkrecipes.Hold, error) { return q.Acquire(t.Context(), entry) },
			func() (*zkrecipes.Hold, error) { return q.Try(t.Context(), entry) },
		} {
			srv.Intercept(zktest.Match{Op: zktest.OpExists, Path: foreign}, zktest.Fail(zktest.CodeNoAuth))
			_, err := acquire()
			require.ErrorIs(t, err, zk.ErrNoAuth)
			require.Len(t, srv.Children(path), 1)
		}
	})
}

// TestRefuseForeign_NamesTheOption: the error names only what lets both share the path.
func TestRefuseForeign_NamesTheOption(t *testing.T) {
	const apart = "in ten digits, but is not named "
	for name, test := range map[string]struct {
		kinds   []string
		foreign string
		want    string
	}{
		"election, lock of go-zookeeper": {
			[]string{znode.Latch},
			"_c_x-lock-",
			"the option WithLayout(election.Selector), or have one",
		},
		"mutex, election":         {[]string{znode.Lock}, "_c_x-latch-", "the layout election.Latch, or have one"},
		"election, lock of kazoo": {[]string{znode.Latch}, "x__lock__", "the option WithKazoo, or have one"},
		"mutex, lock of kazoo":    {[]string{znode.Lock}, "x__lock__", "the option WithKazoo, or have one"},
		"read-write lock, reader of kazoo": {
			[]string{znode.Read, znode.Write},
			"x__rlock__",
			"the option WithKazoo, or have one",
		},
		"mutex, reader of kazoo":        {[]string{znode.Lock}, "x__rlock__", apart + "lock-: have one"},
		"double barrier, lock of kazoo": {[]string{"member-"}, "x__lock__", apart + "member-: have one"},
		"mutex with kazoo, reader of another": {
			[]string{znode.Lock, znode.KazooLock},
			"_c_x-__READ__",
			apart + "lock- or __lock__: have one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := bubble.Dial(t, srv, "a")
				require.NoError(t, c.CreateAll(t.Context(), "/app/lock", nil))
				_, err := c.Create(t.Context(), "/app/lock/"+test.foreign, nil, zk.FlagEphemeral|zk.FlagSequence)
				require.NoError(t, err)
				q, err := znode.New((*client.Client)(c), "/app/lock", recipe.Config{}, test.kinds...)
				require.NoError(t, err)
				_, err = q.Try(t.Context(), znode.Entry{Kind: test.kinds[0], Rule: znode.First})
				require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
				require.ErrorContains(t, err, test.want)
			})
		})
	}
}
