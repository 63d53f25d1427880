package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A process that was frozen checks the clock before it learns that its connection is lost.
func TestAge_Current_LooksAtTheClock(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		age := trial.Live(t, trial.Dial(t, srv)).NewAgeOnALine()
		require.True(t, age.Current())
		srv.Freeze()
		time.Sleep(trial.Timeout)
		require.False(t, age.Current())
		srv.Thaw()
	})
}
