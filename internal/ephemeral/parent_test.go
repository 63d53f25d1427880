package ephemeral_test

import (
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/ephemeral"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestPrefix_IsCurators(t *testing.T) {
	form := regexp.MustCompile(`^_c_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-$`)
	seen := map[string]bool{}
	for range 100 {
		guid := ephemeral.NewGUID()
		require.False(t, seen[guid])
		seen[guid] = true
		require.Regexp(t, form, ephemeral.Prefix(guid))
	}
}

// Of 3,000 locks with names and deadlines of their own, up to 509 left their parents for ever: a server keeps a container that never had
// a child.
func TestCreate_ParentMadeInVain_IsRemoved(t *testing.T) {
	container := func(of string, a func(cancel func()) zktest.Action) func(*zktest.Server, func()) {
		return func(srv *zktest.Server, cancel func()) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Path: "^" + of + "$", Where: func(zktest.Request) bool {
				return of == "/app" || srv.Exists("/app")
			}}, a(cancel))
		}
	}
	child := func(a func(cancel func()) zktest.Action) func(*zktest.Server, func()) {
		return func(srv *zktest.Server, cancel func()) {
			srv.Intercept(zktest.Match{Op: zktest.OpCreate, Path: "member-", Skip: 1}, a(cancel))
		}
	}
	before := func(cancel func()) zktest.Action { return zktest.Before(func(zktest.Request) { cancel() }) }
	after := func(cancel func()) zktest.Action { return zktest.After(func(zktest.Request) { cancel() }) }
	for name, disturb := range map[string]func(*zktest.Server, func()){
		"caller gone before the parent is made": container(path, before),
		"caller gone as the parent is made":     container(path, after),
		"caller gone between two parents":       container("/app", after),
		"caller gone before the node is made":   child(before),
		"caller gone as the node is made":       child(after),
		"not allowed to make the node":          child(func(func()) zktest.Action { return zktest.Fail(zktest.CodeNoAuth) }),
		"fault of the server at the node":       child(func(func()) zktest.Action { return zktest.Fail(zktest.CodeRuntimeInconsistency) }),
		"caller gone, and the connection as well": container(path, func(cancel func()) zktest.Action {
			go func() {
				time.Sleep(3 * time.Millisecond)
				cancel()
			}()
			return zktest.DropReply()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				srv.SetLatency(time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				disturb(srv, cancel)
				if n, err := p.Create(ctx, s, member, nil); err == nil { // the answer came first
					n.Remove()
				}
				time.Sleep(time.Second)
				srv.Reap()
				srv.Reap()
				require.False(t, srv.Exists("/app"))
			})
		})
	}
}

// TestCreate_ParentMadeInVain_OfOthers_Stays: what was there before, what others have put there meanwhile, and what others use.
func TestCreate_ParentMadeInVain_OfOthers_Stays(t *testing.T) {
	put := func(srv *zktest.Server, path string, mode zktest.Mode) {
		_, err := srv.Create(path, nil, mode)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		before, meanwhile func(srv *zktest.Server)
		stays             string
	}{
		"a container above":  {func(srv *zktest.Server) { put(srv, "/app", zktest.Container) }, nil, "/app"},
		"a plain node above": {func(srv *zktest.Server) { put(srv, "/app", zktest.Persistent) }, nil, "/app"},
		"a node of another client": {nil, func(srv *zktest.Server) {
			put(srv, "/app", zktest.Persistent)
			_, err := srv.Create(path, []byte("settings"), zktest.Persistent)
			require.NoError(t, err)
		}, path},
		"a contender": {nil, func(srv *zktest.Server) {
			put(srv, "/app", zktest.Container)
			put(srv, path, zktest.Container)
			put(srv, path+"/x", zktest.Persistent)
		}, path + "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				if c.before != nil {
					c.before(srv)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Path: "^" + path + "$"}, zktest.Before(func(zktest.Request) {
					if c.meanwhile != nil {
						c.meanwhile(srv)
					}
					cancel()
				}))
				_, err := p.Create(ctx, s, member, nil)
				require.ErrorIs(t, err, context.Canceled)
				synctest.Wait()
				require.True(t, srv.Exists(c.stays))
				require.False(t, c.meanwhile == nil && srv.Exists(path))
			})
		})
	}
}

// TestCreate_ParentRemovedUnderAnother: a caller that finds it gone makes it again.
func TestCreate_ParentRemovedUnderAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), "/app", nil))
		ctx, cancel := context.WithCancel(t.Context())
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Path: "^" + path + "$"}, zktest.After(func(zktest.Request) { cancel() }))
		deleting := make(chan struct{})
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^" + path + "$"}, zktest.Before(func(zktest.Request) {
			close(deleting)
			time.Sleep(time.Second) // lets the next create queue up behind it
		}))
		_, err := p.Create(ctx, s, member, nil)
		require.ErrorIs(t, err, context.Canceled)
		<-deleting
		n, err := p.Create(t.Context(), s, member, nil)
		require.NoError(t, err)
		require.True(t, srv.Exists(n.Paths[0]))
		require.ErrorIs(t, s.Delete(t.Context(), path, -1), zk.ErrNotEmpty)
	})
}
