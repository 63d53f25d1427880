package ephemeral_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/parent"

var member = ephemeral.Spec{Kind: "member-", Data: []byte("me")}

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session)) {
	t.Helper()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		p := &ephemeral.Parent{Client: (*client.Client)(bubble.Dial(t, srv, "a")), Path: path}
		s, err := p.Client.Session(t.Context())
		require.NoError(t, err)
		f(t, srv, p, s)
	})
}

// TestCreate: there is one node, whatever happened to the first copies, and none after its removal. Whatever must be
// sent after a create is sent after each copy.
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
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
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
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		door, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		want := ephemeral.Spec{Kind: "lease-", Count: 3, Instead: door.Paths}
		leases, err := p.Create(t.Context(), s, want, nil)
		require.NoError(t, err)
		require.Len(t, leases.Paths, 3)
		require.ErrorIs(t, door.RequireExists(t.Context()), ephemeral.ErrGone)
		_, err = p.Create(t.Context(), s, want, nil)
		require.ErrorIs(t, err, ephemeral.ErrGone)
		require.Len(t, srv.Children(path), 3)
		require.NoError(t, srv.Delete(leases.Paths[1]))
		require.ErrorIs(t, leases.RequireExists(t.Context()), ephemeral.ErrGone)
		leases.Remove()
		require.NoError(t, leases.WaitRemoved(t.Context()))
		require.Empty(t, srv.Children(path))
	})
}

// noted records its calls.
type noted []string

func (n *noted) Deleting() { *n = append(*n, "leaving") }
func (n *noted) Deleted()  { *n = append(*n, "left") }

// TestRemove_Observer: only the one deletion that succeeded is reported.
func TestRemove_Observer(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
			n, err := p.Create(t.Context(), s, member, nil)
			require.NoError(t, err)
			var told noted
			n.Observer = &told
			if byHand {
				require.NoError(t, srv.Delete(n.Paths[0]))
			}
			n.Remove()
			n.Remove()
			require.NoError(t, n.WaitRemoved(t.Context()))
			if byHand {
				require.Equal(t, noted{"leaving"}, told)
			} else {
				require.Equal(t, noted{"leaving", "left"}, told)
			}
		})
	}
}

// TestCreate_Refused: the caller gets the error, and nothing more is sent. The same holds if a parent cannot be
// created.
func TestCreate_Refused(t *testing.T) {
	for name, op := range map[string]zktest.Op{"the node": zktest.OpCreate, "a parent": zktest.OpCreateContainer} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				refused := srv.Intercept(zktest.Match{Op: op, Times: -1}, zktest.Fail(zktest.CodeNoAuth))
				writes := srv.Intercept(zktest.Match{Op: zktest.OpMulti, Times: -1}, zktest.Proceed())
				_, err := p.Create(t.Context(), s, member, nil)
				require.ErrorIs(t, err, zk.ErrNoAuth)
				synctest.Wait()
				require.Equal(t, 1, refused.Hits())
				require.Zero(t, writes.Hits(), "no barrier, since there is nothing to look for")
			})
		})
	}
}

// TestCreate_CannotBeLookedFor: the reply is lost, and the server's next answer does not show whether the node was
// created. The create is not sent again, and what it created is removed.
func TestCreate_CannotBeLookedFor(t *testing.T) {
	for name, c := range map[string]struct {
		match  zktest.Match
		action zktest.Action
		is     error
	}{
		"barrier fails": {
			zktest.Match{Op: zktest.OpMulti, Path: "^/$"},
			zktest.Fail(zktest.CodeRuntimeInconsistency),
			zkrecipes.Code(-2),
		},
		"list is refused": {zktest.Match{Op: zktest.OpGetChildren2}, zktest.Fail(zktest.CodeNoAuth), zk.ErrNoAuth},
		"owner is refused": {
			zktest.Match{Op: zktest.OpExists, Path: "member-"},
			zktest.Fail(zktest.CodeNoAuth),
			zk.ErrNoAuth,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
				srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-"}, zktest.DropReply())
				again := srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-", Times: -1}, zktest.Proceed())
				srv.Intercept(c.match, c.action)
				_, err := p.Create(t.Context(), s, member, nil)
				require.ErrorIs(t, err, c.is)
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				time.Sleep(time.Minute)
				require.Zero(t, again.Hits())
				require.Empty(t, srv.Children(path))
			})
		})
	}
}

// TestCreate_DeletedAfterALostReply: what was created is gone by the time it is searched for. With its parent it is
// created again. If only a part of it is left, neither that nor a second copy counts.
func TestCreate_DeletedAfterALostReply(t *testing.T) {
	three := ephemeral.Spec{Kind: "lease-", Count: 3}
	after := func(srv *zktest.Server, remove func()) {
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lease-"}, zktest.After(func(zktest.Request) {
			remove()
			srv.Cut(zktest.Everyone)
		}))
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		after(srv, func() { require.NoError(t, srv.DeleteAll(path)) })
		n, err := p.Create(t.Context(), s, three, nil)
		require.NoError(t, err)
		require.NoError(t, n.RequireExists(t.Context()))
		require.Len(t, srv.Children(path), 3)
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		after(srv, func() { require.NoError(t, srv.Delete(path+"/"+srv.Children(path)[1])) })
		_, err := p.Create(t.Context(), s, three, nil)
		require.ErrorIs(t, err, ephemeral.ErrGone)
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(path))
	})
}

// TestCreate_CallerGone_RequestIgnored: the caller has given up, and the server never answers the create, or the
// barrier of the search, but answers later requests. What was created is removed nevertheless, as are its parents.
func TestCreate_CallerGone_RequestIgnored(t *testing.T) {
	gone := func(t *testing.T, p *ephemeral.Parent, s *session.Session, ignored *zktest.Rule) {
		_, err := p.Create(trial.Within(t, time.Second), s, member, nil)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		time.Sleep(time.Minute)
		require.Equal(t, 1, ignored.Hits())
	}
	create := zktest.Match{Op: zktest.OpCreate, Path: "member-", Skip: 1} // the first finds no parent
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		gone(t, p, s, srv.Intercept(create, zktest.Ignore()))
		require.False(t, srv.Exists(path))
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		srv.Intercept(create, zktest.HoldReply(2*time.Second))
		gone(t, p, s, srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.Ignore()))
		require.Empty(t, srv.Children(path))
	})
}

// TestCreate_FoundInTheirOrder: the first of several nodes is the first that was created, even if the reply was lost.
func TestCreate_FoundInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "lease-"}, zktest.DropReply())
		n, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "lease-", Count: 12}, nil)
		require.NoError(t, err)
		var names []string
		for _, made := range n.Paths {
			names = append(names, strings.TrimPrefix(made, path+"/"))
		}
		require.Equal(t, srv.Children(path), names)
	})
}

// TestCreate_LateCopyHasTheName: a node with a key is sent again, and the first copy arrives in between.
func TestCreate_LateCopyHasTheName(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		var name string
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "reader-", Where: func(r zktest.Request) bool {
			name = r.Path
			return true
		}}, zktest.DropRequest())
		searched := srv.Intercept(zktest.Match{Op: zktest.OpGetChildren2}, zktest.HoldReply(time.Second))
		go func() {
			<-searched.Done()
			_, _ = s.Create(t.Context(), name, nil, zk.FlagEphemeral) // RequireExists below checks that
		}()
		n, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "reader-", Key: "0000000007"}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{name}, n.Paths)
		require.NoError(t, n.RequireExists(t.Context()))
		require.Len(t, srv.Children(path), 1)
	})
}

// TestRemove_SeveralLateCopies: two creates were lost, and each arrives as late as possible, when the server gets the
// next barrier. The name is the same, so the second can only arrive when the first is gone.
func TestRemove_SeveralLateCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "reader-", Times: 2}, zktest.DropRequest())
		n, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "reader-", Key: "0000000007"}, nil)
		require.NoError(t, err)
		copies := make(chan error, 2)
		barriers := 0
		srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^/$", Times: -1, Where: func(zktest.Request) bool {
			if barriers++; barriers%2 == 0 || barriers > 4 {
				return false
			}
			go func() {
				_, err := s.Create(t.Context(), n.Paths[0], nil, zk.FlagEphemeral)
				copies <- err
			}()
			return true
		}}, zktest.Fail(zktest.CodeThrottled)) // so that it is sent again, after the copy
		n.Remove()
		require.NoError(t, n.WaitRemoved(t.Context()))
		synctest.Wait()
		require.Len(t, copies, 2)
		require.NoError(t, errors.Join(<-copies, <-copies))
		require.Empty(t, srv.Children(path))
	})
}

// TestCreate_NodeOfAnotherSession_IsLeftAlone: it has our GUID. An operator finds it in the log.
func TestCreate_NodeOfAnotherSession_IsLeftAlone(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var log bytes.Buffer
		c := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		p := &ephemeral.Parent{Client: (*client.Client)(c), Path: path}
		s, err := p.Client.Session(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
		var forged string
		srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-", Where: func(r zktest.Request) bool {
			forged = r.Path + "0000000009"
			_, err := srv.Create(forged, nil, zktest.Persistent)
			require.NoError(t, err)
			return true
		}}, zktest.DropRequest())
		n, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		require.NotEqual(t, []string{forged}, n.Paths)
		synctest.Wait() // a separate goroutine writes the log
		require.Equal(t, 1, strings.Count(log.String(), "belongs to another session"), log.String())
		require.Contains(t, log.String(), forged)
		n.Remove()
		require.NoError(t, n.WaitRemoved(t.Context()))
		require.True(t, srv.Exists(forged))
	})
}

// TestRequireExists: only a read shows that the node is gone. A node with the same name that was created since is a
// different one.
func TestRequireExists(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		n, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpExists}, zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, n.RequireExists(t.Context()), zk.ErrNoAuth)
		require.NoError(t, n.RequireExists(t.Context()))
		require.NoError(t, srv.Delete(n.Paths[0]))
		require.ErrorIs(t, n.RequireExists(t.Context()), ephemeral.ErrGone)
		_, err = srv.Create(n.Paths[0], nil, zktest.Persistent)
		require.NoError(t, err)
		require.ErrorIs(t, n.RequireExists(t.Context()), ephemeral.ErrGone)
	})
}

// TestIsCopy: only a create that was sent several times has copies.
func TestIsCopy(t *testing.T) {
	for _, lost := range []bool{true, false} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
			require.NoError(t, p.Client.CreateAll(t.Context(), path, nil))
			if lost {
				srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-"}, zktest.DropRequest())
			}
			n, err := p.Create(t.Context(), s, member, nil)
			require.NoError(t, err)
			name := strings.TrimPrefix(n.Paths[0], path+"/")
			require.Equal(t, lost, n.IsCopy(name))
			require.False(t, n.IsCopy(ephemeral.Prefix("")+name[len(ephemeral.Prefix(ephemeral.NewGUID())):]))
		})
	}
}

// TestRemove_Backoff: the first pause is about 10 ms, each further one half as long again, up to about 5 s. A random
// half more or less keeps many clients apart. A server that sheds load is not reported to have refused.
func TestRemove_Backoff(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var log bytes.Buffer
		c := bubble.Dial(t, srv, "a", bubble.Warnings(&log))
		p := &ephemeral.Parent{Client: (*client.Client)(c), Path: path}
		s, err := p.Client.Session(t.Context())
		require.NoError(t, err)
		n, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		var tries []time.Time
		rule := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Times: -1, Where: func(zktest.Request) bool {
			tries = append(tries, time.Now())
			return true
		}}, zktest.Fail(zktest.CodeQuotaExceeded))
		n.Remove()
		time.Sleep(5 * time.Minute)
		rule.Remove()
		require.NoError(t, n.WaitRemoved(t.Context()))
		require.Greater(t, len(tries), 30)
		pause := 10 * time.Millisecond
		for i := 2; i < len(tries); i++ { // the second try is sent at once
			gap := tries[i].Sub(tries[i-1])
			require.GreaterOrEqual(t, gap, pause/2-time.Microsecond)
			require.LessOrEqual(t, gap, pause*3/2+time.Microsecond)
			pause = min(pause*3/2, 5*time.Second)
		}
		synctest.Wait() // a separate goroutine writes the log
		require.NotContains(t, log.String(), "not authorized")
	})
}

// TestRemove_SeveralNodes_IsOneTransaction: others wait until all of them are gone.
func TestRemove_SeveralNodes_IsOneTransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		n, err := p.Create(t.Context(), s, ephemeral.Spec{Kind: "lease-", Count: 3}, nil)
		require.NoError(t, err)
		sent := bubble.Requests(srv)
		n.Remove()
		require.NoError(t, n.WaitRemoved(t.Context()))
		require.Equal(t, 1, sent.Hits())
		require.Empty(t, srv.Children(path))
	})
}

// A server that answers "no node" to everything gets its requests with growing pauses.
func TestCreate_ServerKnowsNoNode_IsPaced(t *testing.T) {
	for name, plain := range map[string]bool{"containers": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				p.Plain = plain
				all := srv.Intercept(zktest.Match{Times: -1}, zktest.Fail(zktest.CodeNoNode))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := p.Create(ctx, s, member, nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "zk: node does not exist)")
				require.Less(t, all.Hits(), 400)
				require.Greater(t, all.Hits(), 100, "and it goes on")
				all.Remove()
				began := time.Now()
				_, err = p.Create(t.Context(), s, member, nil)
				require.NoError(t, err)
				require.Equal(t, began, time.Now(), "that the parent is missing costs no pause")
			})
		})
	}
}
