package session_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// bytesOfEnd returns what the server would write if the session ended now.
func bytesOfEnd(srv *zktest.Server, s *session.Session) int {
	n := 48
	for _, path := range srv.Ephemerals(s.ID()) {
		n += 4 + len(path)
	}
	return n
}

// TestBytesOfEnd_AsTheServerHasThem: the count agrees, whatever creates a node and whatever removes it.
func TestBytesOfEnd_AsTheServerHasThem(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/root", "")
		c := trial.DialTo(t, srv.Addr()+"/root", conn.WithDialer(srv.DialAs(trial.Label)))
		s := trial.Live(t, c)
		agree := func(nodes int) {
			t.Helper()
			synctest.Wait()
			require.Len(t, srv.Ephemerals(s.ID()), nodes)
			require.Equal(t, bytesOfEnd(srv, s), s.BytesOfEnd())
		}
		agree(0)
		_, err := c.Create(t.Context(), "/plain", nil, 0)
		require.NoError(t, err)
		agree(0)
		_, err = c.Create(t.Context(), "/é", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		seq, err := c.Create(t.Context(), "/n", nil, zk.FlagEphemeral|zk.FlagSequence)
		require.NoError(t, err)
		agree(2)
		_, err = c.Create(t.Context(), "/é", nil, zk.FlagEphemeral)
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = c.Multi(t.Context(), zkrecipes.OpDelete("/é", -1), zkrecipes.OpDelete("/é", -1),
			zkrecipes.OpCreate("/m", nil, zk.FlagEphemeral))
		require.ErrorIs(t, err, zk.ErrNoNode)
		agree(2)
		_, err = c.Multi(t.Context(), zkrecipes.OpDelete("/é", -1), zkrecipes.OpCreate("/m", nil, zk.FlagEphemeral),
			zkrecipes.OpCreate("/p", nil, 0), zkrecipes.OpDelete("/p", -1), zkrecipes.OpCreate("/é", nil, zk.FlagEphemeral),
			zkrecipes.OpDelete("/é", -1))
		require.NoError(t, err)
		agree(2)
		require.NoError(t, c.Delete(t.Context(), seq, -1))
		agree(1)

		require.NoError(t, srv.Delete("/root/m")) // by hand: the next answer shows it
		exists, _, err := c.Exists(t.Context(), "/m")
		require.NoError(t, err)
		require.False(t, exists)
		agree(0)
		_, err = c.Create(t.Context(), "/w", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		_, _, _, err = s.GetW(t.Context(), "/w")
		require.NoError(t, err)
		require.NoError(t, srv.Delete("/root/w")) // the event shows it
		agree(0)

		p := &ephemeral.Parent{Client: trial.Inner(c), Path: "/queue"}
		door, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "lock-"}, nil)
		require.NoError(t, err)
		leases, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "lease-", Count: 7, Instead: door.Paths}, nil)
		require.NoError(t, err)
		agree(7)
		require.NoError(t, srv.Delete("/root"+leases.Paths[3]))
		leases.Remove()
		require.NoError(t, leases.WaitRemoved(t.Context()))
		agree(0)
	})
}

// TestBytesOfEnd_InDoubt: a create counts until it is settled, and a delete counts until it is confirmed.
func TestBytesOfEnd_InDoubt(t *testing.T) {
	for name, lost := range map[string]zktest.Action{"applied": zktest.DropReply(), "not applied": zktest.DropRequest()} {
		for _, spec := range []ephemeral.Spec{{Kind: "lock-"}, {Kind: "lease-", Count: 3}, {Key: "marker"}} {
			t.Run(fmt.Sprint(name, spec), func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					s := trial.Live(t, c)
					p := &ephemeral.Parent{Client: trial.Inner(c), Path: "/queue"}
					require.NoError(t, c.CreateAll(t.Context(), "/queue", nil))
					creates := zktest.Match{Path: "_c_", Where: writes, Times: 2}
					srv.Intercept(creates, lost)
					n, err := p.Create(t.Context(), s, spec, nil)
					require.NoError(t, err)
					require.GreaterOrEqual(t, s.BytesOfEnd(), bytesOfEnd(srv, s))
					if name == "applied" { // the search has found all of them
						require.Equal(t, bytesOfEnd(srv, s), s.BytesOfEnd())
					}
					counted := s.BytesOfEnd()
					srv.Intercept(zktest.Match{Path: "_c_", Where: writes}, zktest.DropReply())
					held := srv.Intercept(zktest.Match{Path: "_c_", Where: writes}, zktest.HoldReply(time.Second))
					n.Remove()
					<-held.Done()
					require.Equal(t, counted, s.BytesOfEnd(), "deleted, and not yet confirmed")
					require.NoError(t, n.WaitRemoved(t.Context()))
					require.Equal(t, 48, s.BytesOfEnd())

					// The caller gives up, and whatever may exist is removed.
					srv.Intercept(creates, lost)
					ctx := trial.Within(t, time.Millisecond)
					_, err = p.Create(ctx, s, spec, nil)
					require.Error(t, err)
					time.Sleep(time.Minute)
					require.Equal(t, 48, s.BytesOfEnd())
				})
			})
		}
	}
}

func writes(r zktest.Request) bool {
	return r.Op == zktest.OpCreate || r.Op == zktest.OpDelete || r.Op == zktest.OpMulti
}

// TestSessionFull: with the smallest limit, the client warns at half of it. It refuses before it sends, and removed
// nodes make room.
func TestSessionFull(t *testing.T) {
	const limit = 2 * (8<<10 - 1)
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var log bytes.Buffer
		c := trial.Dial(t, srv, conn.WithMaxRequestSize(4<<10), conn.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s := trial.Live(t, c)
		long := strings.Repeat("a", 180)
		warned := func() int {
			synctest.Wait()
			return strings.Count(log.String(), "the session approaches its limit of ephemeral nodes")
		}
		var paths []string
		fill := func() (full error) {
			for full == nil && len(paths) < 200 {
				var path string
				if path, full = c.Create(t.Context(), "/"+long, nil, zk.FlagEphemeral|zk.FlagSequence); full == nil {
					paths = append(paths, path)
				}
				if half := s.BytesOfEnd() > limit/2; half != (warned() > 0) {
					t.Fatalf("%d bytes, of %d, and %d warnings", s.BytesOfEnd(), limit, warned())
				}
			}
			return full
		}
		requests := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: -1}, zktest.Proceed())
		full := fill()
		require.ErrorIs(t, full, zkrecipes.ErrSessionFull)
		require.NotErrorIs(t, full, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, full,
			fmt.Sprintf(
				"create /%s: session full: with this node, the end of the session would take %d bytes, above the limit of %d",
				long, s.BytesOfEnd()+4+1+180+11, limit/4*3))
		require.Equal(t, len(paths), requests.Hits(), "the one that is refused is not sent")
		require.Greater(t, s.BytesOfEnd(), limit/4*3-4-1-180-11)
		require.Equal(t, 1, warned())

		_, err := c.Multi(t.Context(), zkrecipes.OpDelete(paths[0], -1), zkrecipes.OpCreate("/"+long, nil, zk.FlagEphemeral))
		require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
		_, err = c.Create(t.Context(), "/"+long, nil, 0) // not ephemeral
		require.NoError(t, err)
		sub, err := c.Sub("/" + long) // with the same session
		require.NoError(t, err)
		_, err = sub.Create(t.Context(), "/b", nil, zk.FlagEphemeral)
		require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
		require.NoError(t, c.Delete(t.Context(), paths[0], -1))
		_, err = sub.Create(t.Context(), "/b", nil, zk.FlagEphemeral)
		require.NoError(t, err)

		srv.Expire(s.ID())
		<-s.Done()
		require.NoError(t, c.Ready(t.Context()))
		require.Equal(t, 48, trial.Live(t, c).BytesOfEnd())
		_, err = c.Create(t.Context(), "/c", nil, zk.FlagEphemeral)
		require.NoError(t, err)
	})
}

// TestBytesOfEnd_Random: requests and replies are lost at random. The count is never below what the server has, and
// finally agrees.
func TestBytesOfEnd_Random(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				random, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
				var mu sync.Mutex // guards faults
				c := trial.Dial(t, srv)
				s := trial.Live(t, c)
				require.NoError(t, c.CreateAll(t.Context(), "/queue", nil))
				p := &ephemeral.Parent{Client: trial.Inner(c), Path: "/queue"}
				some := zktest.Match{Times: -1, Where: func(r zktest.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					return writes(r) && faults.IntN(6) == 0
				}}
				replies, requests := srv.Intercept(some, zktest.DropReply()), srv.Intercept(some, zktest.DropRequest())
				specs := []ephemeral.Spec{{Kind: "lock-"}, {Kind: "lease-", Count: 3}, {Key: "marker"}}
				var nodes []*ephemeral.Node
				for range 60 {
					switch own := fmt.Sprintf("/own%d", random.IntN(3)); random.IntN(5) {
					case 0, 1:
						if n, err := p.Create(t.Context(), s, specs[random.IntN(3)], nil); err == nil {
							nodes = append(nodes, n)
						}
					case 2:
						// It may exist, or its answer may be lost.
						_, _ = c.Create(t.Context(), own, nil, zk.FlagEphemeral)
					case 3:
						_ = c.Delete(t.Context(), own, -1)
					default:
						if len(nodes) > 0 {
							nodes[0].Remove()
							nodes = nodes[1:]
						}
					}
					synctest.Wait()
					require.NoError(t, s.Err())
					require.GreaterOrEqual(t, s.BytesOfEnd(), bytesOfEnd(srv, s))
				}
				replies.Remove()
				requests.Remove()
				for _, n := range nodes {
					n.Remove()
					require.NoError(t, n.WaitRemoved(t.Context()))
				}
				for i := range 3 {
					own := fmt.Sprintf("/own%d", i)
					_, _ = c.Create(t.Context(), own, nil, zk.FlagEphemeral)
					require.NoError(t, c.Delete(t.Context(), own, -1))
				}
				time.Sleep(time.Minute)
				require.Empty(t, srv.Ephemerals(s.ID()))
				require.Equal(t, 48, s.BytesOfEnd())
			})
		})
	}
}
