package ephemeral

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/parent"

var member = Spec{Kind: "member-", Data: []byte("me")}

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		p := &Parent{Client: (*session.Client)(bubble.Dial(t, srv, "a")), Path: path}
		s, err := p.Client.Session(t.Context())
		require.NoError(t, err)
		f(t, srv, p, s)
	})
}

// TestCreate: one node, whatever became of the first copies, and nothing after its removal. What is to be sent behind a create
// is sent behind each copy.
func TestCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		action zktest.Action
		copies int
	}{
		"answered":      {zktest.Proceed(), 1},
		"not applied":   {zktest.DropRequest(), 2},
		"reply lost":    {zktest.DropReply(), 1}, // the search finds it
		"shedding load": {zktest.Fail(zktest.Code(-127)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session) {
				require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
				srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-"}, tt.action)
				copies := 0
				n, err := p.Create(t.Context(), s, member, func() { copies++ })
				require.NoError(t, err)
				require.Equal(t, tt.copies, copies)
				require.Equal(t, []string{n.Paths[0][len(path)+1:]}, srv.Children(path))
				node, _ := srv.Node(n.Paths[0])
				require.Equal(t, node.Stat.Czxid, n.Czxid)
				require.Equal(t, "member-", n.Kind)
				n.Remove()
				require.NoError(t, n.WaitRemoved(t.Context()))
				require.Empty(t, srv.Children(path))
			})
		})
	}
}

// TestCreate_SeveralInsteadOfOne: all in one transaction, or nothing.
func TestCreate_SeveralInsteadOfOne(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session) {
		door, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		want := Spec{Kind: "lease-", Count: 3, Instead: door.Paths}
		leases, err := p.Create(t.Context(), s, want, nil)
		require.NoError(t, err)
		require.Len(t, leases.Paths, 3)
		require.ErrorIs(t, door.RequireExists(t.Context()), ErrGone)
		_, err = p.Create(t.Context(), s, want, nil)
		require.ErrorIs(t, err, ErrGone)
		require.Len(t, srv.Children(path), 3)
		require.NoError(t, srv.Delete(leases.Paths[1]))
		require.ErrorIs(t, leases.RequireExists(t.Context()), ErrGone)
		leases.Remove()
		require.NoError(t, leases.WaitRemoved(t.Context()))
		require.Empty(t, srv.Children(path))
	})
}

// TestCreate_CallerGone: the caller goes while the answer is on its way. The call returns at once, and the node goes too.
func TestCreate_CallerGone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session) {
		answered := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-"}, zktest.HoldReplyUntil(answered))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		_, err := p.Create(ctx, s, member, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		require.Len(t, srv.Children(path), 1)
		close(answered)
		synctest.Wait()
		require.Empty(t, srv.Children(path))
	})
}

// TestRemove_Leaving: the one deletion that succeeded is told, and no other.
func TestRemove_Leaving(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session) {
			n, err := p.Create(t.Context(), s, member, nil)
			require.NoError(t, err)
			var told []string
			n.Leaving = func() func() {
				told = append(told, "leaving")
				return func() { told = append(told, "left") }
			}
			if byHand {
				require.NoError(t, srv.Delete(n.Paths[0]))
			}
			n.Remove()
			n.Remove()
			require.NoError(t, n.WaitRemoved(t.Context()))
			if byHand {
				require.Equal(t, []string{"leaving"}, told)
			} else {
				require.Equal(t, []string{"leaving", "left"}, told)
			}
		})
	}
}

// TestRemove_NotAllowed: the caller learns of it. The removal goes on, and is done once the server allows it.
func TestRemove_NotAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *Parent, s *session.Session) {
		n, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		rule := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		n.Remove()
		require.ErrorIs(t, n.WaitRemoved(t.Context()), zk.ErrNoAuth)
		require.Len(t, srv.Children(path), 1)
		rule.Remove()
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
		require.NoError(t, n.WaitRemoved(t.Context()))
	})
}
