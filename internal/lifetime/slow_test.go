package lifetime_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	bubbles "github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A list of 1 MB takes 50 s to arrive, five session timeouts, and a sync waits behind it.
func TestReads_ReplyThatArrivesSlowly_ComesInTheEnd(t *testing.T) {
	for _, retained := range []bool{false, true} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			for i := range 10_000 {
				trial.Create(t, srv, fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), "")
			}
			var line bubbles.Line
			c := trial.Dial(t, srv, conn.WithDialer(line.Dial(srv, trial.Label)))
			s := trial.Live(t, c)
			if retained {
				defer s.Retain()()
			}
			seen := trial.States(t, c)
			lists := trial.Requests(srv, zktest.OpGetChildren2)
			line.Set(20_000)
			look := make(chan time.Duration, 1)
			time.AfterFunc(30*time.Second, func() { look <- s.NewAge().LookAgain() })
			var names []string
			var err error
			took := trial.After(func() { names, err = c.Children(trial.Within(t, time.Hour), "/") })
			require.NoError(t, err)
			require.Greater(t, len(names), 10_000)
			require.InDelta(t, 50, took.Seconds(), 10)
			require.Len(t, lists.All(), 1)
			require.Equal(t, []zkrecipes.State{zkrecipes.Connected}, seen.Values())
			require.NoError(t, s.Err())
			require.Equal(t, trial.Timeout/8, <-look,
				"no request of the last 10 s was answered, and the next answer may come at any time")
			line.Set(0)
			require.NoError(t, s.Prove(trial.Within(t, trial.Timeout)))
		})
	}
}

// The connection was cut during a reply that had been arriving for longer than the session timeout. The next connection
// ended the session, although the server had heard the pings all along.
func TestReads_CutWhileAReplyArrivesSlowly_SessionGoesOn(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 10_000 {
			trial.Create(t, srv, fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), "")
		}
		var line bubbles.Line
		var latest net.Conn
		c := trial.Dial(t, srv, conn.WithDialer(func(ctx context.Context, network, address string) (_ net.Conn, err error) {
			latest, err = line.Dial(srv, trial.Label)(ctx, network, address)
			return latest, err
		}))
		s := trial.Live(t, c)
		line.Set(20_000)
		listed := make(chan error, 1)
		go func() {
			_, err := c.Children(t.Context(), "/")
			listed <- err
		}()
		time.Sleep(30 * time.Second)
		srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.HoldReply(10*time.Millisecond))
		require.NoError(t, latest.Close())
		time.Sleep(time.Second)
		require.NoError(t, s.Err())
		line.Set(0)
		require.NoError(t, <-listed)
	})
}

// A reply that stops in the middle does not keep the connection.
func TestReads_ReplyThatStops_IsAskedForElsewhere(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			trial.Create(t, srv, fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), "")
		}
		var line bubbles.Line
		c := trial.Dial(t, srv, conn.WithDialer(line.Dial(srv, trial.Label)))
		s := trial.Live(t, c)
		defer s.Retain()()
		losses := trial.OnLoss(t, s, false)
		time.Sleep(20 * time.Second)
		line.Set(10_000)
		took := trial.After(func() {
			time.AfterFunc(2*time.Second, func() { line.Set(-1) })
			_, err := c.Children(trial.Within(t, time.Hour), "/")
			require.NoError(t, err)
		})
		require.LessOrEqual(t, took, trial.Timeout*3/4)
		require.Empty(t, losses.All())
	})
}

// fromSecond dials the first connection in one way, and all others in another.
func fromSecond(first, others conn.DialFunc) conn.DialFunc {
	var dials atomic.Int32
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return first(ctx, network, address)
		}
		return others(ctx, network, address)
	}
}

// A server that sends a byte occasionally does not keep a client, with or without a hold: another one may be healthy.
func TestReads_ReplyThatDrips_IsAskedForElsewhere(t *testing.T) {
	for _, held := range []bool{false, true} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			var line bubbles.Line
			c := trial.Dial(t, srv, conn.WithDialer(fromSecond(line.Dial(srv, trial.Label), srv.DialAs(trial.Label))))
			s := trial.Live(t, c)
			if held {
				trial.Held(t, s)
			}
			losses := trial.OnLoss(t, s, false)
			time.Sleep(20 * time.Second)
			require.NoError(t, s.Prove(t.Context()))
			line.Set(2)
			require.NoError(t, s.Sync(t.Context(), "/")) // the line is slow from the next read on
			took := trial.After(func() {
				_, err := c.Children(trial.Within(t, time.Hour), "/")
				require.NoError(t, err)
			})
			require.Less(t, took, trial.Timeout)
			require.NoError(t, s.Err())
			if held {
				require.Empty(t, losses.All())
			}
		})
	}
}

// eventFrame is an event that the data of path have changed.
func eventFrame(path string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+8+4+4+4+4+len(path)))
	b = binary.BigEndian.AppendUint32(b, math.MaxUint32) // the xid of events
	b = binary.BigEndian.AppendUint64(b, math.MaxUint64)
	for _, n := range []uint32{0, uint32(zk.EventNodeDataChanged), 3, uint32(len(path))} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, path...)
}

// chatter is a connection to a server that only sends events, once it is on.
type chatter struct {
	net.Conn
	on    *atomic.Bool
	event []byte
	left  []byte // the rest of the event that is being read
}

func (c *chatter) Read(p []byte) (int, error) {
	if !c.on.Load() {
		return c.Conn.Read(p)
	}
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return 0, err
	}
	for { // answers are swallowed
		if n, err := c.Conn.Read(make([]byte, 1<<10)); n == 0 {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return 0, err
			}
			break
		}
	}
	if len(c.left) == 0 {
		c.left = c.event
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

// A server that sends events and answers nothing does not keep a client, with or without a hold. Neither do events so
// large that they arrive in pieces.
func TestReads_EventsWithoutAnswers_ServerIsLeft(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		for _, held := range []bool{false, true} {
			for _, asks := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d bytes, held %v, asks %v", size, held, asks), func(t *testing.T) {
					trial.Run(t, func(t *testing.T, srv *zktest.Server) {
						var on atomic.Bool
						event := eventFrame("/" + strings.Repeat("x", size))
						c := trial.Dial(t, srv,
							conn.WithDialer(fromSecond(func(ctx context.Context, network, address string) (net.Conn, error) {
								raw, err := srv.DialAs(trial.Label)(ctx, network, address)
								return &chatter{Conn: raw, on: &on, event: event}, err
							}, srv.DialAs(trial.Label))))
						s := trial.Live(t, c)
						if held {
							trial.Held(t, s)
						}
						losses := trial.OnLoss(t, s, false)
						time.Sleep(20 * time.Second)
						require.NoError(t, s.Prove(t.Context()))
						seen := trial.States(t, c)
						on.Store(true)
						if asks {
							_, err := c.Children(trial.Within(t, trial.Timeout), "/")
							require.NoError(t, err)
						}
						time.Sleep(3 * trial.Timeout)
						require.NoError(t, s.Err())
						if held {
							require.Empty(t, losses.All())
						}
						require.Equal(t, []zkrecipes.State{zkrecipes.Connected, zkrecipes.Suspended, zkrecipes.Connected}, seen.Values())
					})
				})
			}
		}
	}
}

// A server that answers each request with the code of a lost connection is left.
func TestReads_ServerThatSaysConnectionLoss_IsLeft(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithDialer(fromSecond(srv.DialAs("bad"), srv.DialAs(trial.Label))))
		s := trial.Live(t, c)
		trial.Held(t, s)
		losses := trial.OnLoss(t, s, false)
		srv.Intercept(zktest.Match{From: zktest.Label("bad"), Times: -1}, zktest.Fail(-4))
		took := trial.After(func() {
			_, _, err := c.Get(trial.Within(t, time.Hour), "/")
			require.NoError(t, err)
		})
		require.Less(t, took, time.Second)
		require.Empty(t, losses.All())
	})
}

// Once a large reply is complete, a server that leaves syncs unanswered is dropped again, whatever else it answers.
func TestHeartbeat_AfterALargeReply_SyncUnanswered_AnotherServerIsTried(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for i := range 1000 {
			trial.Create(t, srv, fmt.Sprintf("/%s-%05d", strings.Repeat("x", 90), i), "")
		}
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		defer s.Retain()()
		time.Sleep(20 * time.Second)
		_, err := c.Children(t.Context(), "/")
		require.NoError(t, err)
		seen := trial.States(t, c)
		srv.Intercept(zktest.Match{Op: zktest.OpSync}, zktest.Ignore())
		for range int(trial.Timeout / 2 / (100 * time.Millisecond)) {
			time.Sleep(100 * time.Millisecond)
			_, _, err := c.Exists(t.Context(), "/")
			require.NoError(t, err)
		}
		require.Equal(t, []zkrecipes.State{zkrecipes.Connected, zkrecipes.Suspended, zkrecipes.Connected}, seen.Values())
	})
}
