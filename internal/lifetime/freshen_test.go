package lifetime_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// After a reconnect every waiter requests a proof. One request is enough for all of them.
func TestFreshen_ManyWaiters_SendOneRequest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(time.Minute)
		srv.Cut(trial.Ours)
		time.Sleep(time.Minute)
		multis := trial.Requests(srv, zktest.OpMulti)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.HoldReply(time.Millisecond))
		for range 100 {
			s.Freshen()
		}
		time.Sleep(time.Second)
		require.Len(t, multis.All(), 1)
	})
}

// The proof is requested when less is left than a lag, in which a contact made now is proven, and an eighth of the
// timeout.
func TestFreshen_ProofThatLasts_SendsNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		syncs := trial.Requests(srv, zktest.OpSync)
		time.Sleep(time.Until(s.ValidUntil().Add(-trial.Timeout/4 - trial.Timeout/8 - 1)))
		s.Freshen()
		time.Sleep(time.Nanosecond)
		require.Empty(t, syncs.All())
		s.Freshen()
		time.Sleep(time.Nanosecond)
		require.Len(t, syncs.All(), 1)
	})
}

// TestFreshen_DuringAHandshake: what could not be sent does not keep later calls from sending.
func TestFreshen_DuringAHandshake(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		time.Sleep(time.Minute)
		connects := srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(100*time.Millisecond))
		srv.Cut(trial.Ours)
		time.Sleep(50 * time.Millisecond)
		require.Equal(t, 1, connects.Hits())
		s.Freshen()
		time.Sleep(time.Minute)
		asked := srv.Intercept(zktest.Match{Times: -1, Where: func(q zktest.Request) bool {
			return q.Op == zktest.OpMulti || q.Op == zktest.OpSync
		}}, zktest.Proceed())
		s.Freshen()
		time.Sleep(time.Second)
		require.Equal(t, 1, asked.Hits())
	})
}

// lateEnd is a connection that reports its end late. If the client itself ends it, the goroutine that reads is thus not
// the one that fails the calls, and connects again although a tracer blocks.
type lateEnd struct{ net.Conn }

func (c lateEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		time.Sleep(time.Millisecond)
	}
	return n, err
}

// A connection ends under a request for a proof, whose call fails late, when another is in flight on the next
// connection.
func TestFreshen_FormerConnectionFailsLate_SendsOneRequest(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		late, fail := context.WithCancel(t.Context())
		defer fail()
		slow := &zkrecipes.Tracer{Request: func(_ context.Context, r zkrecipes.Request) {
			if errors.Is(r.Err, zk.ErrConnectionClosed) {
				<-late.Done()
			}
		}}
		endsLater := func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialAs(trial.Label)(ctx, network, address)
			return lateEnd{raw}, err
		}
		s := trial.Live(t, trial.Dial(t, srv, conn.WithTracer(slow), conn.WithDialer(endsLater)))
		time.Sleep(time.Minute)
		srv.Stall(trial.Ours, zktest.FromServer)
		s.Freshen()
		time.Sleep(trial.Timeout * 2 / 3) // the client gives the connection up, and waits for the tracer
		srv.Heal(trial.Ours)
		_, err := s.Children(t.Context(), "/")
		require.NoError(t, err)
		asked := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.HoldReply(time.Second))
		s.Freshen()
		synctest.Wait()
		require.Equal(t, 1, asked.Hits())
		fail()
		synctest.Wait()
		s.Freshen()
		synctest.Wait()
		require.Equal(t, 1, asked.Hits())
	})
}
