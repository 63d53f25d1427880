//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The command is killed when the lock is lost, long before it would end.
func TestRun(t *testing.T) {
	srv := zktest.Run(t)
	result := make(chan error, 1)
	go func() { result <- run(t.Context(), srv.Addr()) }()
	for { // if the session ends before the grant, the program only queues again
		select {
		case err := <-result:
			require.ErrorIs(t, err, zkrecipes.ErrLost)
			return
		case <-time.After(200 * time.Millisecond):
			for _, s := range srv.Sessions() {
				srv.Expire(s.ID)
			}
		}
	}
}
