// Package faults has the tests shown on the page about zktest.
package faults

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// dial connects a client with the label, and closes it at the end of the test.
func dial(t *testing.T, srv *zktest.Server, label string) *conn.Client {
	client, err := conn.Dial(t.Context(), srv.Addr(), conn.WithDialer(srv.DialAs(label)),
		conn.WithSessionTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // always nil
	return client
}

func lockOn(t *testing.T, client *conn.Client) *mutex.Mutex {
	lock, err := mutex.New(client, "/lock")
	require.NoError(t, err)
	return lock
}

func TestLeader_StepsDownWhenItsSessionExpires(t *testing.T) {
	srv := zktest.Run(t)
	leader, err := election.New(dial(t, srv, "a"), "/leader")
	require.NoError(t, err)
	term, err := leader.Campaign(t.Context())
	require.NoError(t, err)
	srv.Expire(srv.SessionOf("a"))
	<-term.Done()
	require.ErrorIs(t, term.Err(), zkrecipes.ErrLost)
}

func TestLock_PassesOnWhenTheHolderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		a := lockOn(t, dial(t, srv, "a"))
		b := lockOn(t, dial(t, srv, "b"))
		hold, err := a.Lock(t.Context())
		require.NoError(t, err)
		srv.Stall(zktest.Label("a"), zktest.Both) // cut off the holder
		start := time.Now()
		_, err = b.Lock(t.Context()) // waits for the session of a to expire
		require.NoError(t, err)
		require.ErrorIs(t, hold.Err(), zkrecipes.ErrLost, "a stopped by itself")
		require.LessOrEqual(t, time.Since(start), 12*time.Second, "virtual time: the session timeout, and one tick")
	})
}

func TestLock_OwnsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		hold, err := lockOn(t, dial(t, srv, "a")).Lock(t.Context())
		require.NoError(t, err)
		node, ok := srv.Node(hold.Path()) // its data, Stat, access list, time to live, and next sequence number
		require.True(t, ok)
		require.Equal(t, srv.SessionOf("a"), node.Stat.EphemeralOwner)
	})
}

func TestLock_FindsItsNodeWhenTheReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		lock := lockOn(t, dial(t, srv, "a"))

		rule := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "^/lock/"}, zktest.DropReply())
		_, err := lock.Lock(t.Context()) // finds the node that it created, and creates no second one
		require.NoError(t, err)
		require.Equal(t, 1, rule.Hits())
		require.Len(t, srv.Children("/lock"), 1)
	})
}
