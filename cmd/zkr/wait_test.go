//go:build unix

package main

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestWait_TellsWhatWasInTheWay(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	locked(t, srv, "/held", "web1/42")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"/held"}, ": 1 in the queue; see zkr status /held"},
		{[]string{"--leader=web2", "/held"}, ": the first in the queue is web1/42"},
		{[]string{"--leader=web2", "/free"}, ": the queue is empty"},
	} {
		limit, out, errs := withLimit(t, "--wait", exit.Busy, []string{c.says}, srv.Addr(),
			append([]string{"wait"}, c.args...)...)
		assert.Contains(t, errs, fmt.Sprintf("%s: gave up after %v%s", c.args[len(c.args)-1], limit, c.says))
		assert.Empty(t, out)
		_, _, errs = withLimit(t, "--wait", exit.Busy, nil, srv.Addr(), append([]string{"wait", "-q"}, c.args...)...)
		assert.Empty(t, errs)
	}
	x := inTerminal(t, command(t, srv.Addr(), "wait", "/held"))
	x.shows(t, "zkr: waiting for /held: 1 in the queue")
	x.presses(t, ctrlC)
	assert.Equal(t, 130, x.status(t))
}

func TestWait_Zero_ChecksOnce(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	locked(t, srv, "/held", "web1/42")
	status, _, errs := run(t, srv.Addr(), "wait", "--wait=0", "/free")
	assert.Equal(t, 0, status, errs)
	status, _, errs = run(t, srv.Addr(), "wait", "--wait=0", "/held")
	assert.Equal(t, exit.Busy, status, errs)
	assert.Contains(t, errs, "1 in the queue")
}

// The leases of kazoo are named by a UUID, and its waiters are below another node.
func TestWait_SemaphoreOfKazoo(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	c := dial(t, srv)
	lease := "/sem/3fb01c0a4f0d8f2b7f3a6d1e4c2b9f0a"
	for _, node := range []string{lease, "/sem-__lock__", "/other/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b"} {
		require.NoError(t, c.CreateAll(t.Context(), node, []byte("py")))
	}
	waits := func(want int, args ...string) {
		t.Helper()
		status, _, errs := run(t, srv.Addr(), append([]string{"wait", "--wait=0"}, args...)...)
		assert.Equal(t, want, status, errs)
	}
	waits(0, "/other") // the node of something else
	waits(exit.Busy, "/sem")
	waits(0, "--leader=py", "/sem")
	waits(0, "--queue=1", "/sem")
	_, err := c.Create(t.Context(), "/sem-__lock__/9f0a5c5f1c0a4f0d8f2b7f3a6d1e4c2b__lock__", nil,
		zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	waits(exit.Busy, "--queue=1", "/sem")
	_, stat, err := c.Exists(t.Context(), lease)
	require.NoError(t, err)
	status, _, errs := run(t, srv.Addr(), "check", "--path=/sem", "--token="+strconv.FormatInt(stat.Czxid, 10))
	assert.Equal(t, 0, status, errs)
	z := command(t, srv.Addr(), "wait", "/sem")
	require.NoError(t, z.Start())
	eventually(t, "it waits", func() bool { return len(srv.Watchers("/sem-__lock__")) > 0 })
	require.NoError(t, c.DeleteAll(t.Context(), "/sem-__lock__"))
	require.NoError(t, c.DeleteAll(t.Context(), lease))
	assert.Equal(t, 0, z.status(t), z.err.String())
}

// zkr wait used to wait forever once its session had ended.
func TestWait_SessionEnds_GoesOnInTheNext(t *testing.T) {
	t.Parallel()
	srv := zktest.Run(t)
	h := locked(t, srv, "/held", "alice")
	z := begin(t, srv.Addr(), "wait", "/held")
	waiter := func() int64 {
		for _, id := range srv.Watchers("/held") {
			return id
		}
		return 0
	}
	eventually(t, "it waits", func() bool { return waiter() != 0 })
	before := waiter()
	srv.Expire(before)
	eventually(t, "it waits in the next session", func() bool { return waiter() != 0 && waiter() != before })
	require.NoError(t, h.Release(t.Context()))
	assert.Equal(t, 0, z.status(t), z.err.String())
}
