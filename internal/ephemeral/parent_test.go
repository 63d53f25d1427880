package ephemeral_test

import (
	"context"
	"fmt"
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

// Of 3,000 locks with different names and deadlines, up to 509 left their parents forever: a server keeps a container
// that never had a child. A client that was closed right after such a call, or during it, did the same.
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
	const closed = "the client is closed"
	type ending func(p *ephemeral.Parent, cancel func()) (disturb, then func())
	ends := map[string]ending{
		"caller gone": func(_ *ephemeral.Parent, cancel func()) (_, _ func()) {
			return cancel, func() { time.Sleep(time.Second) }
		},
		"caller gone, then " + closed: func(p *ephemeral.Parent, cancel func()) (_, _ func()) {
			return cancel, func() { _ = p.Client.Close() }
		},
		"caller gone, during the removal " + closed: func(p *ephemeral.Parent, cancel func()) (_, _ func()) {
			return cancel, func() {
				time.Sleep(3 * time.Millisecond)
				_ = p.Client.Close()
			}
		},
		closed: func(p *ephemeral.Parent, _ func()) (_, _ func()) {
			return func() { go func() { _ = p.Client.Close() }() }, func() { _ = p.Client.Close() }
		},
	}
	run := func(name string, disturb func(*zktest.Server, func()), end ending) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
				srv.SetLatency(time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				now, then := end(p, cancel)
				disturb(srv, now)
				if n, err := p.Create(ctx, s, member, nil); err == nil { // the answer came first
					n.Remove()
				}
				then()
				srv.Reap()
				srv.Reap()
				require.False(t, srv.Exists("/app"))
			})
		})
	}
	for name, disturb := range map[string]func(*zktest.Server, func()){
		"before the parent is made":    container(path, before),
		"as the parent is made":        container(path, after),
		"between two parents":          container("/app", after),
		"before the node is made":      child(before),
		"as the node is made":          child(after),
		"not allowed to make the node": child(func(func()) zktest.Action { return zktest.Fail(zktest.CodeNoAuth) }),
		"fault of the server at the node": child(func(func()) zktest.Action {
			return zktest.Fail(zktest.CodeRuntimeInconsistency)
		}),
	} {
		for how, end := range ends {
			run(name+"/"+how, disturb, end)
		}
	}
	run("the connection is lost as well", container(path, func(cancel func()) zktest.Action {
		go func() {
			time.Sleep(3 * time.Millisecond)
			cancel()
		}()
		return zktest.DropReply()
	}), ends["caller gone"])
}

// If the server does not report in time what happened to the parent, the session is closed nevertheless, since others
// wait for that.
func TestCreate_ParentMadeInVain_NoAnswer_SessionIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), "/app", nil))
		held, err := s.Create(t.Context(), "/held", nil, zk.FlagEphemeral)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer}, zktest.After(func(zktest.Request) { cancel() }))
		silent := srv.Intercept(zktest.Match{Op: zktest.OpExists, Times: -1}, zktest.Ignore())
		_, err = p.Create(ctx, s, member, nil)
		require.ErrorIs(t, err, context.Canceled)
		closing := time.Now()
		require.NoError(t, p.Client.Close())
		require.LessOrEqual(t, time.Since(closing), time.Second)
		require.NotZero(t, silent.Hits())
		require.False(t, srv.Exists(held))
	})
}

// TestCreate_ParentMadeInVain_OfOthers_Stays: existing parents, parents that others have since filled, and parents that
// others use.
func TestCreate_ParentMadeInVain_OfOthers_Stays(t *testing.T) {
	put := func(srv *zktest.Server, path string, mode zktest.Mode) {
		_, err := srv.Create(path, nil, mode)
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		before, meanwhile, afterwards func(srv *zktest.Server)
		stays                         string
	}{
		"a container above":  {before: func(srv *zktest.Server) { put(srv, "/app", zktest.Container) }, stays: "/app"},
		"a plain node above": {before: func(srv *zktest.Server) { put(srv, "/app", zktest.Persistent) }, stays: "/app"},
		"a node of another client": {meanwhile: func(srv *zktest.Server) {
			put(srv, "/app", zktest.Persistent)
			_, err := srv.Create(path, []byte("settings"), zktest.Persistent)
			require.NoError(t, err)
		}, stays: path},
		"a contender": {meanwhile: func(srv *zktest.Server) {
			put(srv, "/app", zktest.Container)
			put(srv, path, zktest.Container)
			put(srv, path+"/x", zktest.Persistent)
		}, stays: path + "/x"},
		"a node of another client in its place": {afterwards: func(srv *zktest.Server) {
			require.NoError(t, srv.Delete(path))
			_, err := srv.Create(path, []byte("settings"), zktest.Persistent)
			require.NoError(t, err)
		}, stays: path},
		"a contender that has left": {afterwards: func(srv *zktest.Server) { // the server reaps it
			put(srv, path+"/x", zktest.Persistent)
			require.NoError(t, srv.Delete(path+"/x"))
		}, stays: path},
	} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, client closed at once %v", name, atOnce), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
					if c.before != nil {
						c.before(srv)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					container := zktest.Match{Op: zktest.OpCreateContainer, Path: "^" + path + "$"}
					if c.afterwards != nil {
						container.Where = func(zktest.Request) bool { return srv.Exists("/app") }
						srv.Intercept(container, zktest.After(func(zktest.Request) { c.afterwards(srv); cancel() }))
					} else {
						srv.Intercept(container, zktest.Before(func(zktest.Request) {
							if c.meanwhile != nil {
								c.meanwhile(srv)
							}
							cancel()
						}))
					}
					_, err := p.Create(ctx, s, member, nil)
					require.ErrorIs(t, err, context.Canceled)
					if atOnce {
						require.NoError(t, p.Client.Close())
					}
					synctest.Wait()
					require.True(t, srv.Exists(c.stays))
					require.False(t, c.before != nil && srv.Exists(path))
				})
			})
		}
	}
}

// TestCreate_ParentRemovedUnderAnother: a caller that finds it gone creates it again.
func TestCreate_ParentRemovedUnderAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server, p *ephemeral.Parent, s *session.Session) {
		require.NoError(t, p.Client.CreateAll(t.Context(), "/app", nil))
		ctx, cancel := context.WithCancel(t.Context())
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer, Path: "^" + path + "$"},
			zktest.After(func(zktest.Request) { cancel() }))
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
