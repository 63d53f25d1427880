package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/outcome"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestOps_HappyPath(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx, c := t.Context(), trial.Dial(t, srv)
		path, err := c.Create(ctx, "/a", []byte("one"), 0)
		require.NoError(t, err)
		require.Equal(t, "/a", path)
		data, stat, err := c.Get(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, "one", string(data))
		require.Zero(t, stat.Version)
		stat, err = c.Set(ctx, "/a", []byte("two"), 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, stat.Version)
		_, err = c.Set(ctx, "/a", nil, 0)
		require.ErrorIs(t, err, zk.ErrBadVersion)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		exists, stat, err := c.Exists(ctx, "/a")
		require.NoError(t, err)
		require.True(t, exists)
		require.EqualValues(t, 3, stat.DataLength)
		exists, _, err = c.Exists(ctx, "/b")
		require.NoError(t, err)
		require.False(t, exists)
		_, err = c.Create(ctx, "/a/b", nil, 0)
		require.NoError(t, err)
		names, err := c.Children(ctx, "/a")
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, names)
		require.ErrorIs(t, c.Delete(ctx, "/a", -1), zk.ErrNotEmpty)
		require.ErrorIs(t, c.Delete(ctx, "/a/b", 7), zk.ErrBadVersion)
		require.NoError(t, c.Delete(ctx, "/a/b", 0))
		err = c.Delete(ctx, "/a/b", 0)
		require.ErrorIs(t, err, zk.ErrNoNode, "nothing was in doubt")
		var opErr *zkrecipes.OpError
		require.ErrorAs(t, err, &opErr)
		require.Equal(t, zkrecipes.OpError{Op: "delete", Path: "/a/b", Err: zk.ErrNoNode}, *opErr)
		require.NoError(t, c.Sync(ctx, "/"))
	})
}

// Invalid input is refused without a request, connected or not.
func TestOps_BadInput_NothingIsSent(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		srv.Intercept(zktest.Match{Times: -1, Where: func(r zktest.Request) bool {
			return r.Op != zktest.OpCloseSession
		}}, zktest.Forbid())
		ctx := t.Context()
		big := make([]byte, 1<<20)
		for _, path := range []string{"", "a", "/a/", "/a//b", "/a/../b", "/a\x00"} {
			_, err := c.Create(ctx, path, nil, 0)
			require.Error(t, err, path)
			_, err = s.StartCreate(ctx, path, nil, 0, 1, nil)
			require.Error(t, err, path)
			_, _, err = c.Get(ctx, path)
			require.Error(t, err, path)
			_, _, _, err = s.GetW(ctx, path)
			require.Error(t, err, path)
			_, err = c.Set(ctx, path, nil, -1)
			require.Error(t, err, path)
			require.Error(t, c.Delete(ctx, path, -1), path)
			_, _, err = c.Exists(ctx, path)
			require.Error(t, err, path)
			_, _, _, err = s.ExistsW(ctx, path)
			require.Error(t, err, path)
			_, err = c.Children(ctx, path)
			require.Error(t, err, path)
			_, _, err = s.ChildrenW(ctx, path)
			require.Error(t, err, path)
			require.Error(t, c.Sync(ctx, path), path)
			_, err = c.Multi(ctx, zkrecipes.OpDelete(path, 0))
			require.ErrorContains(t, err, "multi: delete", path)
		}
		_, err := c.Create(ctx, "/a", big, 0)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, err = s.StartCreate(ctx, "/a", big, zk.FlagEphemeralSequential, 1, nil)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, err = c.Set(ctx, "/a", big, -1)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, err = c.Multi(ctx, zkrecipes.OpSet("/a", big[:600_000], 0), zkrecipes.OpCreate("/b", big[:600_000], 0))
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "multi /a: ")
		for _, flags := range []int32{zk.FlagTTL, zk.FlagPersistentSequentialWithTTL, 7, 9, -1} {
			_, err := c.Create(ctx, "/a", nil, flags)
			require.ErrorIs(t, err, zk.ErrInvalidFlags, "%d", flags)
			require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			_, err = c.Multi(ctx, zkrecipes.OpCreate("/a", nil, flags))
			require.ErrorIs(t, err, zk.ErrInvalidFlags, "%d", flags)
		}
		for _, ops := range [][]zkrecipes.Op{
			nil,
			{{}},
			{{Kind: "text", Path: "/a"}},
			{zkrecipes.OpSet("a", nil, 0)},
			{zkrecipes.OpCreate("/a", nil, zk.FlagContainer)},
		} {
			_, err := c.Multi(ctx, ops...)
			require.ErrorContains(t, err, "multi", "%v", ops)
		}
	})
}

// The size of the whole request counts, including the chroot and the access list: a server hangs up if it is too large.
func TestOps_TooLargeWithChrootOrACL_IsRefused(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv, conn.WithACL(zk.DigestACL(zk.PermAll, strings.Repeat("u", 10_000), "")))
		below, err := c.Sub("/" + strings.Repeat("c", 10_000))
		require.NoError(t, err)
		s := trial.Live(t, below)
		srv.Intercept(zktest.Match{Times: -1, Where: func(r zktest.Request) bool {
			return r.Op != zktest.OpCloseSession
		}}, zktest.Forbid())
		ctx := t.Context()
		data := make([]byte, 1<<20-4<<10-15_000) // either would suffice
		require.ErrorIs(t, trial.Inner(below).CheckCreate("/a", data, 1), zkrecipes.ErrTooLarge)
		_, err = below.Create(ctx, "/a", data, 0)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.ErrorContains(t, err, "create /a")
		_, err = s.StartCreate(ctx, "/a", data, zk.FlagEphemeralSequential, 1, nil)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		data = data[:len(data)/50]
		require.NoError(t, trial.Inner(below).CheckCreate("/a", data, 25))
		require.ErrorIs(t, trial.Inner(below).CheckCreate("/a", data, 30), zkrecipes.ErrTooLarge)
		_, err = s.StartCreate(ctx, "/a", data, zk.FlagEphemeralSequential, 30, nil)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, err = below.Multi(ctx, slices.Repeat([]zkrecipes.Op{zkrecipes.OpCreate("/a", data, 0)}, 30)...)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		_, err = below.Multi(ctx, slices.Repeat([]zkrecipes.Op{zkrecipes.OpDelete("/a", 0)}, 110)...)
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
	})
}

func TestReads_ReplyLostAndSessionExpired_AreRepeated(t *testing.T) {
	reads := map[zktest.Op]func(context.Context, *conn.Client) error{
		zktest.OpGetData: func(ctx context.Context, c *conn.Client) error { _, _, err := c.Get(ctx, "/a"); return err },
		zktest.OpExists: func(ctx context.Context, c *conn.Client) error {
			_, _, err := c.Exists(ctx, "/a")
			return err
		},
		zktest.OpGetChildren2: func(ctx context.Context, c *conn.Client) error {
			_, err := c.Children(ctx, "/a")
			return err
		},
		zktest.OpSync: func(ctx context.Context, c *conn.Client) error { return c.Sync(ctx, "/a") },
	}
	for op, read := range reads {
		faults := map[string]zktest.Action{
			"request lost": zktest.DropRequest(), "reply lost": zktest.DropReply(),
			"throttled": zktest.Fail(zktest.CodeThrottled), "timed out": zktest.Fail(-122),
			"moved":   zktest.Fail(zktest.CodeSessionMoved),
			"expired": zktest.Fail(zktest.CodeSessionExpired),
		}
		for name, fault := range faults {
			t.Run(op.String()+" "+name, func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					trial.Create(t, srv, "/a", "")
					rule := srv.Intercept(zktest.Match{Op: op, Path: "^/a$", Times: 3}, fault)
					require.NoError(t, read(t.Context(), c))
					require.Equal(t, 3, rule.Hits())
				})
			})
		}
	}
}

// A barrier is a transaction, and may be repeated because it changes nothing.
func TestBarrier_LostInEveryWay_IsRepeated(t *testing.T) {
	for name, fault := range map[string]zktest.Action{
		"not": zktest.Proceed(), "request": zktest.DropRequest(), "reply": zktest.DropReply(),
		"throttled": zktest.Fail(zktest.CodeThrottled), "timed out": zktest.Fail(-122),
		"moved": zktest.Fail(zktest.CodeSessionMoved),
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				c := trial.Dial(t, srv)
				s := trial.Live(t, c)
				rule := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: 3}, fault)
				require.NoError(t, s.Barrier(t.Context()))
				require.GreaterOrEqual(t, rule.Hits(), 1)
				history := srv.History()
				require.Equal(t, zktest.OpMulti, history[len(history)-1].Op, "a quorum has agreed to it")
				require.NoError(t, c.Close())
				require.ErrorIs(t, s.Barrier(t.Context()), zkrecipes.ErrClosed)
			})
		})
	}
}

// Each is a write with a fault, and the required result.
func TestVersionedWrites_ReplyLost(t *testing.T) {
	const ok, doubt, badVersion = "ok", "unknown outcome", "bad version"
	tests := []struct {
		name    string
		fault   zktest.Action
		version int32
		meddle  func(*zktest.Server) // between the loss of the connection and the reconnect
		set     string
		del     string
	}{
		{"not applied", zktest.DropRequest(), 0, nil, ok, ok},
		{"applied", zktest.DropReply(), 0, nil, doubt, ok},
		{"not applied, any version", zktest.DropRequest(), -1, nil, doubt, doubt},
		{"applied, any version", zktest.DropReply(), -1, nil, doubt, ok},
		{
			"not applied, changed by another", zktest.DropRequest(), 0, func(srv *zktest.Server) { _ = srv.Set("/a", nil) },
			doubt, doubt,
		},
		{
			"not applied, deleted by another", zktest.DropRequest(), 0, func(srv *zktest.Server) { _ = srv.Delete("/a") }, doubt,
			ok,
		},
		{"refused", zktest.Proceed(), 3, nil, badVersion, badVersion},
		{"throttled", zktest.Fail(zktest.CodeThrottled), 0, nil, ok, ok},
		{"timed out by the server", zktest.Fail(-7), 0, nil, ok, ok},
		{
			"server fault, which a second try would only meet again", zktest.Fail(zktest.CodeMarshallingError), 0, nil, doubt,
			doubt,
		},
	}
	for _, tt := range tests {
		for op, want := range map[zktest.Op]string{zktest.OpSetData: tt.set, zktest.OpDelete: tt.del} {
			t.Run(op.String()+" "+tt.name, func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					c := trial.Dial(t, srv)
					trial.Create(t, srv, "/a", "")
					srv.Intercept(zktest.Match{Op: op, From: trial.Ours}, tt.fault)
					if tt.meddle != nil {
						srv.Intercept(zktest.Match{Op: zktest.OpConnect}, zktest.Before(func(zktest.Request) { tt.meddle(srv) }))
					}
					var err error
					if op == zktest.OpSetData {
						_, err = c.Set(t.Context(), "/a", []byte("new"), tt.version)
					} else {
						err = c.Delete(t.Context(), "/a", tt.version)
					}
					switch want {
					case ok:
						require.NoError(t, err)
					case doubt:
						require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
					case badVersion:
						require.ErrorIs(t, err, zk.ErrBadVersion)
						require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
					}
					if n, exists := srv.Node("/a"); want == ok {
						require.Equal(t, op == zktest.OpSetData, exists)
						require.LessOrEqual(t, n.Stat.Version, int32(1), "applied once")
					}
				})
			})
		}
	}
}

func TestDelete_ReplyLost_GoneAtTheSecondTry(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		trial.Create(t, srv, "/a", "")
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, From: trial.Ours}, zktest.DropRequest())
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, From: trial.Ours},
			zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete("/a")) }))
		require.NoError(t, c.Delete(t.Context(), "/a", 0))
	})
}

func TestWrites_ReplyLost_AreInDoubtAndNotRepeated(t *testing.T) {
	writes := map[zktest.Op]func(context.Context, *session.Session) error{
		zktest.OpCreate: func(ctx context.Context, s *session.Session) error {
			_, err := s.Create(ctx, "/n", nil, 0)
			return err
		},
		zktest.OpSetData: func(ctx context.Context, s *session.Session) error {
			_, err := s.Set(ctx, "/a", nil, -1)
			return err
		},
		zktest.OpDelete: func(ctx context.Context, s *session.Session) error { return s.Delete(ctx, "/a", -1) },
		zktest.OpMulti: func(ctx context.Context, s *session.Session) error {
			_, err := s.Multi(ctx, zkrecipes.OpCheck("/a", 0), zkrecipes.OpCreate("/n", nil, 0))
			return err
		},
	}
	for op, write := range writes {
		for name, fault := range map[string]zktest.Action{
			"applied": zktest.DropReply(), "not applied": zktest.DropRequest(), "server says timeout": zktest.Fail(-7),
		} {
			t.Run(op.String()+" "+name, func(t *testing.T) {
				trial.Run(t, func(t *testing.T, srv *zktest.Server) {
					s := trial.Live(t, trial.Dial(t, srv))
					trial.Create(t, srv, "/a", "")
					sent := trial.Requests(srv, op)
					srv.Intercept(zktest.Match{Op: op}, fault)
					err := write(t.Context(), s)
					require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
					require.False(t, session.NotExecuted(err))
					require.NoError(t, s.Sync(t.Context(), "/"))
					require.Len(t, sent.All(), 1)
				})
			})
		}
		t.Run(op.String()+" throttled", func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				trial.Create(t, srv, "/a", "")
				srv.Intercept(zktest.Match{Op: op, Times: 2}, zktest.Fail(zktest.CodeThrottled))
				require.NoError(t, write(t.Context(), s))
			})
		})
		t.Run(op.String()+" session expired", func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				s := trial.Live(t, trial.Dial(t, srv))
				srv.Intercept(zktest.Match{Op: op}, zktest.Fail(zktest.CodeSessionExpired))
				err := write(t.Context(), s)
				require.ErrorIs(t, err, zkrecipes.ErrLost)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				require.ErrorIs(t, s.Err(), zkrecipes.ErrLost)
			})
		})
	}
}

// Codes for which the library has no variable can still be compared.
func TestOps_CodesWithoutASentinel_AreComparable(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		for _, code := range []zktest.Code{
			zktest.CodeQuotaExceeded, zktest.CodeNotReadOnly, -124, zktest.CodeMarshallingError, -13,
		} {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.Fail(code))
			_, err := c.Create(t.Context(), "/a", nil, 0)
			require.ErrorIs(t, err, zkrecipes.Code(code))
			// A server that fails to marshal the reply has applied the write.
			require.Equal(t, code == zktest.CodeMarshallingError, errors.Is(err, zkrecipes.ErrUnknownOutcome))
			require.False(t, srv.Exists("/a"))
		}
		srv.Intercept(zktest.Match{Op: zktest.OpGetData, Times: -1}, zktest.Fail(zktest.CodeMarshallingError))
		_, _, err := c.Get(trial.Within(t, time.Second), "/zookeeper")
		require.ErrorIs(t, err, zkrecipes.Code(zktest.CodeMarshallingError))
		require.NotErrorIs(t, err, trial.ErrTooLong, "and is not asked for again and again")
	})
}

func TestMulti_Paths_AreThoseOfTheClientInBothDirections(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/root", "/root/app")
		c, err := trial.DialTo(t, srv.Addr()+"/root", conn.WithDialer(srv.Dial)).Sub("/app")
		require.NoError(t, err)
		results, err := c.Multi(t.Context(), zkrecipes.OpCreate("/n-", []byte("x"), zk.FlagSequence),
			zkrecipes.OpCreate("/m", nil, 0), zkrecipes.OpSet("/m", []byte("y"), 0),
			zkrecipes.OpCheck("/m", 1), zkrecipes.OpDelete("/m", 1))
		require.NoError(t, err)
		var paths []string
		for i, r := range results {
			paths = append(paths, r.Path)
			require.Equal(t, i == 2, r.Stat != zk.Stat{}, "only a set has a Stat: %v", r)
		}
		require.Equal(t, []string{"/n-0000000000", "/m", "/m", "/m", "/m"}, paths)
		require.EqualValues(t, 1, results[2].Stat.Version)
		require.Equal(t, []string{"n-0000000000"}, srv.Children("/root/app"))

		culprits := []struct {
			ops  []zkrecipes.Op
			want string
			is   error
		}{
			{
				[]zkrecipes.Op{zkrecipes.OpCreate("/a", nil, 0), zkrecipes.OpCreate("/n-0000000000", nil, 0)},
				"multi: create /n-0000000000", zk.ErrNodeExists,
			},
			{
				[]zkrecipes.Op{zkrecipes.OpCheck("/gone", -1), zkrecipes.OpCreate("/a", nil, 0)},
				"multi: check /gone",
				zk.ErrNoNode,
			},
			{
				[]zkrecipes.Op{zkrecipes.OpCreate("/a", nil, 0), zkrecipes.OpSet("/a", nil, 5), zkrecipes.OpDelete("/a", 0)},
				"multi: set /a", zk.ErrBadVersion,
			},
			{[]zkrecipes.Op{zkrecipes.OpDelete("/x", -1)}, "multi: delete /x", zk.ErrNoNode},
		}
		for _, tt := range culprits {
			results, err := c.Multi(t.Context(), tt.ops...)
			require.ErrorIs(t, err, tt.is)
			require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			require.EqualError(t, err, tt.want+": "+tt.is.Error())
			require.Nil(t, results)
		}
		require.Equal(t, []string{"n-0000000000"}, srv.Children("/root/app"), "all or none")
		created, err := c.Create(t.Context(), "/s-", nil, zk.FlagEphemeralSequential)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(created, "/s-"))
	})
}

// A server appends a number to "/". The node is a child of the chroot, and not a sibling whose name begins the same.
func TestCreate_SequentialAtTheRoot_StaysBelowTheChroot(t *testing.T) {
	for _, chroot := range []string{"", "/root/app"} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			trial.Grow(t, srv, "/root", "/root/app")
			asked := &trial.Log[string]{}
			c := trial.DialTo(t, srv.Addr()+chroot, conn.WithDialer(srv.Dial), conn.WithACLFunc(func(path string) []zk.ACL {
				asked.Add(path)
				return nil
			}))
			ctx := t.Context()
			one, err := c.Create(ctx, "/", nil, zk.FlagEphemeralSequential)
			require.NoError(t, err)
			ttl, err := c.CreateTTL(ctx, "/", nil, zk.FlagSequence, time.Hour)
			require.NoError(t, err)
			results, err := c.Multi(ctx, zkrecipes.OpCreate("/", nil, zk.FlagEphemeralSequential))
			require.NoError(t, err)
			s := trial.Live(t, c)
			creation, err := s.StartCreate(ctx, "/", nil, zk.FlagSequence, 2, nil)
			require.NoError(t, err)
			several, _, err := s.FinishCreate(ctx, creation)
			require.NoError(t, err)
			for _, path := range append(several, one, ttl, results[0].Path) {
				require.Regexp(t, `^/\d{10}$`, path)
				require.True(t, srv.Exists(chroot+path), path)
			}
			counted := s.BytesOfEnd()
			brief, err := c.Create(ctx, "/", nil, zk.FlagEphemeralSequential)
			require.NoError(t, err)
			require.NoError(t, c.Delete(ctx, brief, -1))
			require.Equal(t, counted, s.BytesOfEnd())
			require.Equal(t, slices.Repeat([]string{chroot + "/"}, 5), asked.Values(), "the path without the number")
			for _, mode := range []int32{0, zk.FlagEphemeral, zk.FlagContainer} {
				_, err = c.Create(ctx, "/", nil, mode)
				require.ErrorIs(t, err, zk.ErrNodeExists, "a node without a number is the root itself")
			}
		}, zktest.WithExtendedTypes())
	}
}

// TestMulti_OpOfAnotherRoot: its path is a different node, or its version was read in a different session. Nothing is
// sent.
func TestMulti_OpOfAnotherRoot(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c, other := trial.Dial(t, srv), trial.Dial(t, srv)
		sub := func(c *conn.Client, prefix string) *conn.Client {
			s, err := c.Sub(prefix)
			require.NoError(t, err)
			return s
		}
		for i, x := range []struct {
			op, multi *conn.Client
			ok        bool
		}{
			{c, c, true},
			{sub(c, "/"), c, true},
			{sub(c, "/a/b"), sub(sub(c, "/a"), "/b"), true},
			{sub(c, "/a"), c, false},
			{c, sub(c, "/a"), false},
			{sub(c, "/a"), sub(c, "/b"), false},
			{other, c, false},
			{sub(other, "/a"), sub(c, "/a"), false},
		} {
			op := zkrecipes.OpCheck("/", -1)
			op.Root = trial.Inner(x.op).Root()
			sent := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
			_, err := x.multi.Multi(t.Context(), zkrecipes.OpCheck("/", -1), op)
			sent.Remove()
			if x.ok {
				require.ErrorIs(t, err, zk.ErrNoAuth, i)
				continue
			}
			require.Zero(t, sent.Hits(), i)
			require.ErrorContains(t, err,
				fmt.Sprintf(
					"multi: check /: the operation belongs to a client of %s, and the write to one of %s: "+
						"want the same client and root for both",
					trial.Inner(x.op).Root(), trial.Inner(x.multi).Root()), i)
		}
	})
}

func TestCreateContainer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		require.NoError(t, s.CreateContainer(t.Context(), "/c"))
		n, ok := srv.Node("/c")
		require.True(t, ok && n.Container)
		require.NoError(t, s.CreateContainer(t.Context(), "/c"), "an existing node will do")
		_, err := s.Create(t.Context(), "/d", nil, zk.FlagContainer)
		require.NoError(t, err)
		n, _ = srv.Node("/d")
		require.True(t, n.Container, "and not the plain node that the library would make")
		require.ErrorIs(t, s.CreateContainer(t.Context(), "/x/y"), zk.ErrNoNode)
		for i, fault := range []zktest.Action{zktest.DropReply(), zktest.DropRequest(), zktest.Fail(-7)} {
			srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer}, fault)
			require.NoError(t, s.CreateContainer(t.Context(), fmt.Sprintf("/e%d", i)))
		}
	})
}

func TestCreateContainer_ServerThatDoesNotAnswer_IsNotFlooded(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		rule := srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Times: -1}, zktest.Fail(-7))
		require.ErrorIs(t, s.CreateContainer(trial.Within(t, 995*time.Millisecond), "/c"), trial.ErrTooLong)
		require.LessOrEqual(t, rule.Hits(), 101)
	})
}

func TestCreateContainer_ServerWithoutContainers_GetsAPlainNode(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		asked := trial.Requests(srv, zktest.OpCreateContainer)
		s := trial.Live(t, c)
		for _, path := range []string{"/a", "/b", "/c"} {
			require.NoError(t, s.CreateContainer(t.Context(), path))
			n, ok := srv.Node(path)
			require.True(t, ok && !n.Container)
		}
		require.Len(t, asked.All(), 1, "asked once, then known")
		require.NoError(t, s.Err(), "though the server dropped the connection")
	}, zktest.WithoutContainers())
}

func TestCreateContainer_ServerThatHangsUp_GetsAPlainNode(t *testing.T) {
	for _, also := range []zktest.Deviation{zktest.HangsUpOnContainers, zktest.NoResumption} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			c := trial.Dial(t, srv)
			asked := trial.Requests(srv, zktest.OpCreateContainer)
			create := func(path string) {
				for {
					err := trial.Live(t, c).CreateContainer(t.Context(), path)
					if err == nil {
						break
					}
					require.ErrorIs(t, err, zkrecipes.ErrLost)
				}
				n, ok := srv.Node(path)
				require.True(t, ok && !n.Container)
			}
			var calls sync.WaitGroup
			for i := range 10 {
				calls.Go(func() { create(fmt.Sprint("/a", i)) })
			}
			calls.Wait()
			hangups := len(asked.All())
			create("/b")
			require.Len(t, asked.All(), hangups, "then it is known")
		}, zktest.WithDeviations(zktest.HangsUpOnContainers, also))
	}
}

// Connections that end occasionally do not show that a server has no containers. As on a bad network, the answers are
// lost and not the requests: the server has containers.
func TestCreateContainer_AnswersLost_LaterParentsAreContainers(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Times: 5}, zktest.DropReply())
		for _, path := range []string{"/a", "/b", "/c", "/d", "/e", "/f"} {
			require.NoError(t, s.CreateContainer(t.Context(), path))
			n, _ := srv.Node(path)
			require.True(t, n.Container, path)
		}
	})
}

// The connection ends again and again, whatever the client requests.
func TestCreateContainer_ConnectionsEndUnderOtherRequestsToo_LaterParentsAreContainers(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{From: trial.Ours, Times: 9}, zktest.DropRequest())
		for _, path := range []string{"/a", "/b"} {
			require.NoError(t, s.CreateContainer(t.Context(), path))
			n, _ := srv.Node(path)
			require.True(t, n.Container, path)
		}
	})
}

func TestCreateContainer_HangupsWithSuccessInBetween_AreForgotten(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		for i := range 4 {
			srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Times: 2}, zktest.DropRequest())
			path := fmt.Sprint("/c", i)
			require.NoError(t, s.CreateContainer(t.Context(), path))
			n, _ := srv.Node(path)
			require.True(t, n.Container)
		}
	})
}

func TestCreation_SentWhenItIsStarted_AndZxidIsTheNodes(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReply(time.Second))
		c, err := s.StartCreate(ctx, "/guid-", []byte("me"), zk.FlagEphemeralSequential, 1, nil)
		require.NoError(t, err)
		select {
		case <-c.Done():
			t.Error("done before it is answered")
		default:
		}
		names, err := s.Children(ctx, "/")
		require.NoError(t, err)
		require.Contains(t, names, "guid-0000000000", "what is asked after StartCreate is asked after the create")
		paths, zxid, err := s.FinishCreate(ctx, c)
		require.NoError(t, err)
		<-c.Done()
		n, ok := srv.Node(paths[0])
		require.True(t, ok)
		require.Equal(t, n.Stat.Czxid, zxid)
		require.Equal(t, s.ID(), n.Stat.EphemeralOwner)

		_, zxid, err = s.MultiZxid(ctx, zkrecipes.OpCreate("/m-", nil, zk.FlagSequence), zkrecipes.OpCreate("/x", nil, 0))
		require.NoError(t, err)
		n, _ = srv.Node("/x")
		require.Equal(t, n.Stat.Czxid, zxid)
		_, zxid, err = s.MultiZxid(ctx, zkrecipes.OpDelete("/x", 0))
		require.NoError(t, err)
		require.Equal(t, srv.Zxid(), zxid)
	})
}

func TestCreation_Concurrent_EachGetsItsOwnZxid(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				name := fmt.Sprintf("/%08d-", i)
				var path string
				var zxid int64
				if i%3 == 0 {
					results, z, err := s.MultiZxid(t.Context(), zkrecipes.OpCreate(name, nil, zk.FlagEphemeralSequential))
					require.NoError(t, err)
					path, zxid = results[0].Path, z
				} else {
					c, err := s.StartCreate(t.Context(), name, nil, zk.FlagEphemeralSequential, 1, nil)
					require.NoError(t, err)
					paths, z, err := s.FinishCreate(t.Context(), c)
					require.NoError(t, err)
					path, zxid = paths[0], z
				}
				n, ok := srv.Node(path)
				require.True(t, ok)
				require.Equal(t, n.Stat.Czxid, zxid)
			})
		}
		wg.Wait()
	})
}

func TestCreation_Leave_AllOrNothing(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		c, err := trial.Dial(t, srv).Sub("/app")
		require.NoError(t, err)
		s := trial.Live(t, c)
		trial.Grow(t, srv, "/app", "/app/door")
		create := func(path string) ([]string, int64, error) {
			creation, err := s.StartCreate(ctx, path, []byte("me"), zk.FlagEphemeralSequential, 2, nil, "/door")
			require.NoError(t, err)
			return s.FinishCreate(ctx, creation)
		}
		_, _, err = create("/missing/a-")
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.True(t, srv.Exists("/app/door"))

		paths, zxid, err := create("/a-")
		require.NoError(t, err)
		require.Equal(t, []string{"/a-0000000001", "/a-0000000002"}, paths)
		require.False(t, srv.Exists("/app/door"))
		n, ok := srv.Node("/app" + paths[1])
		require.True(t, ok)
		require.Equal(t, n.Stat.Czxid, zxid)

		_, _, err = create("/b-")
		require.ErrorIs(t, err, outcome.ErrNotDeleted)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.ErrorContains(t, err, "/door")
		require.Len(t, srv.Children("/app"), 2, "nothing was made")

		trial.Create(t, srv, "/appdoor", "")
		_, err = s.StartCreate(ctx, "/a-", nil, zk.FlagEphemeralSequential, 1, nil, "door")
		require.Error(t, err, "a relative path, and so one outside the chroot")
	})
}

func TestChildrenStat(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		trial.Grow(t, srv, "/a", "/a/1", "/a/2", "/a/3")
		require.NoError(t, srv.Delete("/a/2"))
		names, stat, err := s.ChildrenStat(t.Context(), "/a")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"1", "3"}, names)
		require.EqualValues(t, 2, stat.NumChildren)
		require.EqualValues(t, 3+1, stat.Cversion, "made and deleted")
		_, _, err = s.ChildrenStat(t.Context(), "/b")
		require.ErrorIs(t, err, zk.ErrNoNode)
	})
}

func TestChildrenThen_SentBeforeTheAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		for range 100 {
			srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.HoldReply(time.Second))
			sent := make(chan struct{})
			path := make(chan string, 1)
			require.True(t, s.Go(func(ctx context.Context) {
				<-sent
				made, err := s.Create(ctx, "/a-", nil, zk.FlagSequence)
				require.NoError(t, err)
				path <- made
			}))
			began := time.Now()
			names, _, err := s.ChildrenThen(t.Context(), "/", func() {
				require.Zero(t, time.Since(began))
				close(sent)
			})
			require.NoError(t, err)
			require.NotContains(t, names, (<-path)[1:], "what is asked then is asked after it")
		}
	})
}

func TestChildrenThen_AnswerLost_IsSentAgain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.DropReply())
		var sent atomic.Int32
		count := func() { sent.Add(1) }
		ctx := trial.Within(t, time.Minute)
		_, _, err := s.ChildrenThen(ctx, "/", count)
		require.NoError(t, err)
		synctest.Wait() // the writer of the first may get there after the second has been answered
		require.EqualValues(t, 2, sent.Load())
		_, _, err = s.ChildrenThen(ctx, "/missing", count)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.EqualValues(t, 3, sent.Load())
	})
}

func TestReads_ThatEndWithTheirContext_HaveNoOutcome(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		srv.Stall(trial.Ours, zktest.FromServer)
		_, _, err := s.Get(trial.Within(t, time.Millisecond), "/a")
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

// Input that passes the check is not refused later.
func TestCheckCreate_IsNoLaxerThanStartCreate(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		const leave = "/missing"
		for n := 1; n <= 2; n++ {
			passed := 0
			for size := (1<<20-4<<10)/n - 120; size < (1<<20-4<<10)/n; size++ {
				if trial.Inner(c).CheckCreate("/a", make([]byte, size), n, leave) != nil {
					break
				}
				passed++
				created, err := s.StartCreate(t.Context(), "/a", make([]byte, size), zk.FlagEphemeralSequential, n, nil, leave)
				require.NoError(t, err, size)
				_, _, err = s.FinishCreate(t.Context(), created)
				require.ErrorIs(t, err, outcome.ErrNotDeleted)
			}
			require.NotZero(t, passed)
		}
	})
}

// A container may still be created if the session ends during its create. If nothing was sent, it cannot.
func TestCreateContainer_EndsWithItsSessionOrContext_SaysWhetherItIsInDoubt(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		err := s.CreateContainer(dead, "/c")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)

		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Times: -1}, zktest.Ignore())
		done := make(chan error, 1)
		go func() { done <- s.CreateContainer(t.Context(), "/c") }()
		synctest.Wait()
		require.NoError(t, c.Close())
		err = <-done
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

// A read that gets no answer does not show that a container is missing.
func TestCreateContainer_ContextEndsBeforeTheReconnect_LaterParentsAreContainers(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		for i := range 3 {
			srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer}, zktest.DropReply())
			srv.Refuse(trial.Ours)
			require.Error(t, s.CreateContainer(trial.Within(t, 500*time.Millisecond), fmt.Sprint("/c", i)))
			srv.Accept(trial.Ours)
			require.NoError(t, s.Sync(t.Context(), "/"))
		}
		require.NoError(t, s.CreateContainer(t.Context(), "/d"))
		n, _ := srv.Node("/d")
		require.True(t, n.Container)
	})
}
