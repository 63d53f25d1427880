package lifetime_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A session of 10 s is resumed with 19 s. It must be proven again, or end: an acquisition must not wait forever.
func TestLease_ResumedWithALongerTimeout_IsProvenOrEnds(t *testing.T) {
	for _, ms := range []uint32{12_000, 15_000, 17_000, 19_000, 20_000} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv, trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
				if n == 2 {
					binary.BigEndian.PutUint32(frame[8:], ms)
				}
			})))
			s := trial.Live(t, c)
			srv.Cut(trial.Ours)
			time.Sleep(time.Minute)
			if s.Err() == nil {
				require.NoError(t, s.Prove(trial.Within(t, time.Minute)), "%d ms", ms)
			}
		})
	}
}

// A server with a minimum below two ticks grants one tick. Half a tick is half of the timeout.
func TestProve_TimeoutOfOneTick_IsProven(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithTickTime(4*time.Second), conn.WithSessionTimeout(4*time.Second))
		s := trial.Live(t, c)
		time.Sleep(time.Minute)
		require.Equal(t, 4*time.Second, s.Timeout())
		require.NoError(t, s.Prove(trial.Within(t, time.Minute)))
	})
}
