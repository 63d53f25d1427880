//go:build unix

package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

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
