//go:build unix

package main

import (
	"fmt"
	"testing"

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
		{[]string{"/held"}, ": 1 in the queue, see zkr status /held"},
		{[]string{"--leader=web2", "/held"}, ": the first in the queue is web1/42"},
		{[]string{"--leader=web2", "/free"}, ": the queue is empty"},
	} {
		limit, out, errs := withLimit(t, "--wait", exit.Busy, []string{c.says}, srv.Addr(),
			append([]string{"wait"}, c.args...)...)
		assert.Contains(t, errs, fmt.Sprintf("%s: gave up after %v%s", c.args[len(c.args)-1], limit, c.says))
		assert.Empty(t, out)
		_, _, errs = run(t, srv.Addr(), append([]string{"wait", "-q", "--wait=0.1"}, c.args...)...)
		assert.Empty(t, errs)
	}
	x := inTerminal(t, command(t, srv.Addr(), "wait", "/held"))
	x.shows(t, "zkr: waiting for /held: 1 in the queue")
	x.presses(t, ctrlC)
	assert.Equal(t, 130, x.status(t))
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
