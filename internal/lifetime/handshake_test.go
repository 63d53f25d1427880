package lifetime_test

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	kit "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A new session is granted 4 s, and the connection is lost before the credentials are answered. Another server resumes
// the session with 10 s. The transaction that created the session has 4 s, and no write has confirmed the resumption.
func TestLease_ConnectionLostBetweenGrantAndCredentials_TheGrantCounts(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		srv.Intercept(zktest.Match{Op: zktest.OpAuth}, zktest.DropRequest())
		start := time.Now()
		var first atomic.Uint64
		c := trial.Dial(t, srv, conn.WithAuth("digest", "a:b"),
			trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
				if n == 1 {
					first.Store(binary.BigEndian.Uint64(frame[12:]))
					binary.BigEndian.PutUint32(frame[8:], 4000)
				}
			})))
		s := trial.Live(t, c)
		require.Equal(t, first.Load(), uint64(s.ID()), "the same session")
		require.False(t, s.ValidUntil().After(start.Add(4*time.Second)), "%v", s.ValidUntil().Sub(start))
	})
}

// A ClickHouse server without a leader answers a connect request with the protocol version 42 and the session -1. This
// proves nothing about our session: the next server, or the same one later, resumes it.
func TestHandshake_OtherProtocolVersion_IsNoAnswerAboutTheSession(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var tries atomic.Int32
		c := trial.Dial(t, srv, trial.Through(srv, trial.ConnectReplies(func(n int32, frame []byte) {
			tries.Store(n)
			if n == 1 || n == 3 {
				binary.BigEndian.PutUint32(frame[4:], 42)
				binary.BigEndian.PutUint64(frame[12:], 1<<64-1)
			}
		})))
		s := trial.Live(t, c)
		require.EqualValues(t, 2, tries.Load())
		require.Positive(t, s.ID())
		srv.Cut(zktest.Everyone)
		require.NoError(t, s.Sync(t.Context(), "/"))
		require.EqualValues(t, 4, tries.Load())
		require.NoError(t, s.Err())
	})
}

// A tick time far above the granted timeout is reported. The leader's answers then prove only contacts that are older
// than a session may get, so every hold is lost soon, although the servers are healthy.
func TestGranted_TooShortForTheTickTime_IsLogged(t *testing.T) {
	for tick, tooShort := range map[time.Duration]bool{
		2 * time.Second: false, trial.Timeout: false, trial.Timeout * 3 / 2: false, 2 * trial.Timeout: true,
		20 * trial.Timeout: true,
	} {
		t.Run(tick.String(), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				var log kit.Buffer
				s := trial.Live(t, trial.Dial(t, srv, conn.WithTickTime(tick), kit.Warnings(&log)))
				losses := trial.OnLoss(t, s, false)
				trial.Held(t, s)
				time.Sleep(10 * trial.Timeout)
				require.NoError(t, s.Err())
				require.Equal(t, tooShort, len(losses.All()) > 0, "lost %v", losses.All())
				require.Equal(t, tooShort, strings.Contains(log.String(), "too short for WithTickTime"), "%s", log.String())
			})
		})
	}
}
