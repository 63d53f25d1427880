package ephemeral_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`

var modes = map[string]int32{
	"persistent": conn.Persistent, "persistent-sequential": conn.PersistentSequential,
	"ephemeral": conn.Ephemeral, "ephemeral-sequential": conn.EphemeralSequential,
}

// TestCreateProtected: there is one node of the given mode, and its path is returned, whatever happened to the first
// request.
func TestCreateProtected(t *testing.T) {
	for fault, action := range map[string]zktest.Action{
		"none": zktest.Proceed(), "not applied": zktest.DropRequest(), "reply lost": zktest.DropReply(),
		"shedding load": zktest.Fail(zktest.Code(-127)),
	} {
		for name, mode := range modes {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				c := (*conn.Client)(p.Client)
				sub, err := c.Sub("/app")
				require.NoError(t, err)
				require.NoError(t, c.CreateAll(t.Context(), path, nil))
				srv.Intercept(zktest.Match{Op: zktest.OpCreate}, action)
				acl := append(zk.WorldACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
				made, err := sub.CreateProtected(t.Context(), "/parent/x-", []byte("me"), mode, acl...)
				require.NoError(t, err, fault)
				number := ""
				if mode&zk.FlagSequence != 0 {
					number = `\d{10}`
				}
				require.Regexp(t, "^/parent/_c_"+uuid+"-x-"+number+"$", made, name)
				require.Equal(t, []string{made[len("/parent/"):]}, srv.Children(path), fault)
				data, stat, err := sub.Get(t.Context(), made)
				require.NoError(t, err)
				require.Equal(t, "me", string(data))
				owner := int64(0)
				if mode&zk.FlagEphemeral != 0 {
					owner = s.ID()
				}
				require.Equal(t, owner, stat.EphemeralOwner, name)
				list, _, err := sub.ACL(t.Context(), made)
				require.NoError(t, err)
				require.Equal(t, acl, list)
			})
		}
	}
}

// TestCreateProtected_AtTheRoot: the parent may be the root of the client.
func TestCreateProtected_AtTheRoot(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, _ *session.Session) {
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
		made, err := (*conn.Client)(p.Client).CreateProtected(t.Context(), "/x", nil, conn.Ephemeral)
		require.NoError(t, err)
		require.Regexp(t, "^/_c_"+uuid+"-x$", made)
		require.True(t, srv.Exists(made))
	})
}

func TestCreateProtected_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, _ *session.Session) {
		c := (*conn.Client)(p.Client)
		sent := srv.Intercept(zktest.Match{Times: -1}, zktest.Proceed())
		for _, mode := range []int32{-1, conn.Container, 5} {
			_, err := c.CreateProtected(t.Context(), "/x", nil, mode)
			require.ErrorIs(t, err, zk.ErrInvalidFlags)
		}
		for _, path := range []string{"x", "/", "/x/"} {
			_, err := c.CreateProtected(t.Context(), path, nil, conn.Ephemeral)
			require.Error(t, err, path)
		}
		require.Zero(t, sent.Hits())
		_, err := c.CreateProtected(t.Context(), "/none/x", nil, conn.Ephemeral)
		require.ErrorIs(t, err, zk.ErrNoNode)
		require.False(t, srv.Exists("/none"), "as Create, it makes no parents")
	})
}

// TestCreateProtected_CallerGone: nobody knows of the node, so it is removed.
func TestCreateProtected_CallerGone(t *testing.T) {
	for name, mode := range modes {
		inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, _ *session.Session) {
			require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
			answered := make(chan struct{})
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.HoldReplyUntil(answered))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := (*conn.Client)(p.Client).CreateProtected(ctx, path+"/x-", nil, mode)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, name)
			require.Len(t, srv.Children(path), 1, name)
			close(answered)
			synctest.Wait()
			require.Empty(t, srv.Children(path), name)
		})
	}
}

// TestCreateProtected_SearchRefused: the error shows that the node may have been created, and what was created is
// removed once it can be found.
func TestCreateProtected_SearchRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, _ *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
		refused := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		_, err := (*conn.Client)(p.Client).CreateProtected(t.Context(), path+"/x-", nil, conn.PersistentSequential)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.Len(t, srv.Children(path), 1)
		refused.Remove()
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
	})
}

// TestCreateProtected_SessionGone: the call ends, and an ephemeral node with its session. The error names a node that
// stays.
func TestCreateProtected_SessionGone(t *testing.T) {
	for name, mode := range modes {
		inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
			require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
			srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
			srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Before(func(r zktest.Request) { srv.Expire(r.Session) }))
			_, err := (*conn.Client)(p.Client).CreateProtected(t.Context(), path+"/x-", nil, mode)
			require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, name)
			require.ErrorIs(t, err, s.Err(), name)
			time.Sleep(time.Minute)
			left := srv.Children(path)
			if mode&zk.FlagEphemeral != 0 {
				require.Empty(t, left, name)
			} else {
				require.Len(t, left, 1, name)
				require.Regexp(t, "_c_"+uuid+"-x-", err.Error())
			}
		})
	}
}

// TestCreateProtected_Counts: an ephemeral node takes up some of what the session may have, and returns it. A
// persistent one uses none.
func TestCreateProtected_Counts(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a", conn.WithMaxRequestSize(4<<10))
		var made []string
		for {
			path, err := c.CreateProtected(t.Context(), "/x-", nil, conn.EphemeralSequential)
			if err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
				break
			}
			made = append(made, path)
		}
		require.Greater(t, len(made), 50)
		_, err := c.CreateProtected(t.Context(), "/x-", nil, conn.PersistentSequential)
		require.NoError(t, err)
		require.NoError(t, c.Delete(t.Context(), made[0], -1))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate}, zktest.DropReply())
		_, err = c.CreateProtected(t.Context(), "/x-", nil, conn.EphemeralSequential)
		require.NoError(t, err)
		_, err = c.CreateProtected(t.Context(), "/x-", nil, conn.EphemeralSequential)
		require.ErrorIs(t, err, zkrecipes.ErrSessionFull)
	})
}

// A node of another client occupies the path, which only a forged GUID can achieve. The creates are not sent back to
// back.
func TestCreateProtected_PathIsOccupied(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, _ *session.Session) {
		c := (*conn.Client)(p.Client)
		require.NoError(t, c.CreateAll(t.Context(), path, nil))
		sent := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: -1}, zktest.Fail(zktest.Code(-110)))
		_, err := c.CreateProtected(trial.Within(t, time.Second), path+"/x-", nil, conn.Ephemeral)
		require.Error(t, err)
		require.Less(t, sent.Hits(), 110)
	})
}
