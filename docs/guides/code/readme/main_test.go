//go:build unix

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestRun: the command ends when the lock is lost, long before its time.
func TestRun(t *testing.T) {
	srv := zktest.Run(t)
	result := make(chan error, 1)
	go func() { result <- run(t.Context(), srv.Addr()) }()
	for { // a session that ends before the grant only makes the program queue again
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
