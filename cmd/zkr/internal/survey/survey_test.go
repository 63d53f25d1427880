package survey

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func dial(t *testing.T, srv *zktest.Server, id string, more ...conn.Option) *conn.Client {
	t.Helper()
	return bubble.Dial(t, srv, id, append(more, conn.WithSessionTimeout(time.Minute))...)
}

// counting counts the requests of a client.
func counting(sent *atomic.Int64) conn.Option {
	return conn.WithTracer(&zkrecipes.Tracer{Request: func(context.Context, zkrecipes.Request) { sent.Add(1) }})
}

// permit acquires the only permit of the semaphore at /q.
func permit(t *testing.T, c *conn.Client, opts ...semaphore.Option) {
	t.Helper()
	s, err := semaphore.New(c, "/q", 1, opts...)
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), 1)
	require.NoError(t, err)
}

// node creates an ephemeral sequential node, as a client of another library does.
func node(t *testing.T, c *conn.Client, path, data string) string {
	t.Helper()
	dir := parent(path)
	if err := c.CreateAll(t.Context(), dir, nil); err != nil {
		require.ErrorIs(t, err, zk.ErrNodeExists)
	}
	made, err := c.Create(t.Context(), path, []byte(data), zk.FlagEphemeral|zk.FlagSequence)
	require.NoError(t, err)
	return made
}

const (
	guid = "_c_6b9ea79f-6b6f-4f15-9a2f-2c6e9a4a8d3e-"
	hex  = "0123456789abcdef0123456789abcdef"
)

// queuesUp waits until path has n children.
func queuesUp(t *testing.T, srv *zktest.Server, path string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(srv.Children(path)) == n }, time.Minute, time.Millisecond)
}

// line summarizes a queue.
func line(q *Queue) string {
	names := func(list []*Contender) string {
		var ids []string
		for _, c := range list {
			ids = append(ids, c.Mode+" "+c.ID)
		}
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s %s | %s | %s | %s", q.Kind, q.Layout, q.Verdict, names(q.Holders), names(q.Waiters))
}

// TestLayouts covers contenders of the recipes, and nodes as Curator and kazoo create them.
func TestLayouts(t *testing.T) {
	wait := func(t *testing.T, acquire func(context.Context) error) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { _ = acquire(ctx) })
		t.Cleanup(func() { stop(); waiting.Wait() })
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, srv *zktest.Server, one, two *conn.Client)
		want string
	}{
		{"nothing", func(*testing.T, *zktest.Server, *conn.Client, *conn.Client) {}, "unknown  | free |  | "},
		{"mutex", func(t *testing.T, srv *zktest.Server, one, two *conn.Client) {
			a, err := mutex.New(one, "/q")
			require.NoError(t, err)
			_, err = a.Lock(t.Context())
			require.NoError(t, err)
			b, err := mutex.New(two, "/q")
			require.NoError(t, err)
			wait(t, func(ctx context.Context) error { _, err := b.Lock(ctx); return err })
			queuesUp(t, srv, "/q", 2)
		}, "mutex curator | held | mutex one/1 | mutex two/2"},
		{"readers and a writer", func(t *testing.T, srv *zktest.Server, one, two *conn.Client) {
			a, err := rwlock.New(one, "/q")
			require.NoError(t, err)
			_, err = a.RLock(t.Context())
			require.NoError(t, err)
			_, err = a.RLock(t.Context())
			require.NoError(t, err)
			b, err := rwlock.New(two, "/q")
			require.NoError(t, err)
			wait(t, func(ctx context.Context) error { _, err := b.Lock(ctx); return err })
			queuesUp(t, srv, "/q", 3)
			wait(t, func(ctx context.Context) error { _, err := b.RLock(ctx); return err })
			queuesUp(t, srv, "/q", 4)
		}, "read-write lock curator | held | read one/1, read one/1 | write two/2, read two/2"},
		{"election", func(t *testing.T, srv *zktest.Server, one, two *conn.Client) {
			a, err := election.New(one, "/q")
			require.NoError(t, err)
			_, err = a.Campaign(t.Context())
			require.NoError(t, err)
			b, err := election.New(two, "/q")
			require.NoError(t, err)
			wait(t, func(ctx context.Context) error { _, err := b.Campaign(ctx); return err })
			queuesUp(t, srv, "/q", 2)
		}, "election curator | held | leader one/1 | leader two/2"},
		{"semaphore with a waiter that has made its lease", func(t *testing.T, srv *zktest.Server, one, two *conn.Client) {
			a, err := semaphore.New(one, "/q", 2)
			require.NoError(t, err)
			for range 2 {
				_, err = a.Acquire(t.Context(), 1)
				require.NoError(t, err)
			}
			b, err := semaphore.New(two, "/q", 2)
			require.NoError(t, err)
			wait(t, func(ctx context.Context) error { _, err := b.Acquire(ctx, 1); return err })
			queuesUp(t, srv, "/q/leases", 3)
		}, "semaphore curator | held | permit one/1, permit one/1 | permit two/2"},
		{
			"semaphore with a waiter that has several leases, and the holder's session",
			func(t *testing.T, srv *zktest.Server, one, _ *conn.Client) {
				a, err := semaphore.New(one, "/q", 3)
				require.NoError(t, err)
				_, err = a.Acquire(t.Context(), 2)
				require.NoError(t, err)
				wait(t, func(ctx context.Context) error { _, err := a.Acquire(ctx, 2); return err })
				queuesUp(t, srv, "/q/leases", 4)
			}, "semaphore curator | held | permit one/1, permit one/1 | permit one/1",
		},
		{"mutex shared with kazoo", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			node(t, one, "/q/"+guid+"lock-", "one/1")
			node(t, two, "/q/"+hex+"__lock__", "two")
		}, "mutex curator+kazoo | held | mutex one/1 | mutex two"},
		{"kazoo's read-write lock", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			node(t, one, "/q/"+hex+"__rlock__", "one")
			node(t, two, "/q/"+hex+"__lock__", "two")
			node(t, two, "/q/"+hex+"__rlock__", "three")
		}, "read-write lock kazoo | held | read one | write two, read three"},
		{"kazoo's semaphore", func(t *testing.T, srv *zktest.Server, one, two *conn.Client) {
			require.NoError(t, one.CreateAll(t.Context(), "/q", []byte("1")))
			_, err := one.Create(t.Context(), "/q/"+hex, []byte("one"), zk.FlagEphemeral)
			require.NoError(t, err)
			node(t, two, "/q-__lock__/"+hex+"__lock__", "two")
		}, "semaphore kazoo | held | permit one | permit two"},
		{"semaphore shared with kazoo", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			permit(t, one, semaphore.WithKazoo())
			node(t, two, "/q-__lock__/"+hex+"__lock__", "two")
		}, "semaphore curator+kazoo | held | permit one/1 | permit two"},
		{"Curator's default data", func(t *testing.T, _ *zktest.Server, one, _ *conn.Client) {
			node(t, one, "/q/"+guid+"lock-", "10.0.0.7")
		}, "mutex curator | held | mutex 10.0.0.7 | "},
		{"two recipes", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			node(t, one, "/q/"+guid+"latch-", "one")
			node(t, two, "/q/"+guid+"lock-", "two")
		}, "election curator | mixed | leader one | mutex two"},
		{"a lock and a semaphore", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			permit(t, one)
			node(t, two, "/q/"+guid+"lock-", "two")
			node(t, two, "/q/"+guid+"lock-", "three")
		}, "semaphore curator | mixed | permit one/1, mutex two | mutex three"},
		{"a lock and a semaphore of kazoo", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			permit(t, one, semaphore.WithKazoo())
			node(t, two, "/q/"+hex+"__lock__", "two")
			node(t, two, "/q-__lock__/"+hex+"__lock__", "three")
		}, "semaphore curator+kazoo | mixed | permit one/1, mutex two | permit three"},
		{"two semaphores", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			permit(t, one)
			_, err := two.Create(t.Context(), "/q/"+hex, []byte("two"), zk.FlagEphemeral)
			require.NoError(t, err)
			node(t, one, "/q-__lock__/"+hex+"__lock__", "three")
		}, "semaphore curator+kazoo | mixed | permit two, permit one/1 | permit three"},
		{"a lock where a semaphore of kazoo was", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			require.NoError(t, one.CreateAll(t.Context(), "/q-__lock__", nil))
			node(t, two, "/q/"+hex+"__lock__", "two")
		}, "mutex kazoo | held | mutex two | "},
		{"foreign", func(t *testing.T, _ *zktest.Server, one, two *conn.Client) {
			node(t, one, "/q/n_", "one")
			node(t, two, "/q/"+guid+"lock-", "two")
		}, "mutex curator | foreign node | mutex two | "},
		{"a node that is no contender", func(t *testing.T, srv *zktest.Server, one, _ *conn.Client) {
			node(t, one, "/q/"+guid+"lock-", "one")
			_, err := srv.Create("/q/item-", nil, zktest.PersistentSequential)
			require.NoError(t, err)
			_, err = one.Create(t.Context(), "/q/"+guid+"marker", nil, zk.FlagEphemeral)
			require.NoError(t, err)
		}, "mutex curator | held | mutex one | "},
		{"ghost", func(t *testing.T, srv *zktest.Server, one, _ *conn.Client) {
			require.NoError(t, one.CreateAll(t.Context(), "/q", nil))
			_, err := srv.Create("/q/"+guid+"lock-", []byte("old"), zktest.PersistentSequential)
			require.NoError(t, err)
			node(t, one, "/q/"+guid+"lock-", "one")
		}, "mutex curator | ghost | mutex old | mutex one"},
		{"sequence exhausted", func(t *testing.T, srv *zktest.Server, one, _ *conn.Client) {
			require.NoError(t, one.CreateAll(t.Context(), "/q", nil))
			require.NoError(t, srv.SetCversion("/q", 2147483647))
			node(t, one, "/q/"+guid+"lock-", "one")
		}, "mutex curator | exhausted | mutex one | "},
		{"revoke asked", func(t *testing.T, srv *zktest.Server, one, _ *conn.Client) {
			require.NoError(t, srv.Set(node(t, one, "/q/"+guid+"lock-", "one"), []byte("__REVOKE__")))
		}, "mutex curator | revoke asked | mutex  | "},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := zktest.Run(t, zktest.InMemory())
			one, two, eye := dial(t, srv, "one/1"), dial(t, srv, "two/2"), dial(t, srv, "eye")
			c.make(t, srv, one, two)
			writes := srv.Zxid()
			q, err := (&Reader{Client: eye}).Path(t.Context(), "/q")
			require.NoError(t, err)
			require.Equal(t, c.want, line(q))
			all, err := (&Reader{Client: eye}).Below(t.Context(), "/")
			require.NoError(t, err)
			if len(q.Contenders()) == 0 {
				require.Empty(t, all)
			} else {
				require.Len(t, all, 1)
				require.Equal(t, "/q", all[0].Path)
				require.Equal(t, c.want, line(all[0]))
			}
			require.Equal(t, writes, srv.Zxid(), "it only reads")
		})
	}
}

func TestVerdict_Stuck(t *testing.T) {
	srv := zktest.Run(t, zktest.InMemory())
	c := dial(t, srv, "one/1")
	first := node(t, c, "/q/"+guid+"lock-", "web1/42")
	node(t, c, "/q/"+guid+"lock-", "web2/43")
	q, err := (&Reader{Client: c, Stuck: time.Hour}).Path(t.Context(), "/q")
	require.NoError(t, err)
	require.False(t, q.Has(Stuck))
	require.Equal(t, "held by web1/42", q.Words)
	require.Equal(t, first, q.Waiters[0].Behind)
	require.Equal(t, []any{"web1", 42}, []any{q.Holders[0].Host, q.Holders[0].Process})
	q.Findings = nil
	q.judge(time.Now().Add(2*time.Hour), time.Hour)
	require.Equal(t, Stuck, q.Verdict)
	require.Regexp(t, `^stuck behind web1/42: web2/43 has waited for 2h0m`, q.Words)
	q.Kind, q.Findings = "election", nil
	q.judge(time.Now().Add(2*time.Hour), time.Hour)
	require.Equal(t, Held, q.Verdict, "a candidate may wait for ever")
}

// TestJSON: scripts rely on these names.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	contender := func(node, id string) *Contender {
		c := listing{parent(node): {base(node)}}.contenders(parent(node), false)[0]
		c.read([]byte(id), zk.Stat{Czxid: 4294967299, Ctime: at.UnixMilli(), Mtime: at.UnixMilli(), EphemeralOwner: 0x1002})
		c.Since = c.Since.UTC()
		return c
	}
	q := &Queue{Path: "/q", AsOf: at, Findings: []Finding{}, Exists: true}
	q.arrange([]*Contender{contender("/q/b-lock-0000000002", "web2/43"), contender("/q/a-lock-0000000001", "web1/42")},
		nil, nil)
	q.judge(at.Add(time.Minute), 0)
	got, err := json.MarshalIndent(q, "", "  ")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/queue.json")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(want)), string(got))
}

func TestReader_BoundsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var sent atomic.Int64
		c, eye := dial(t, srv, "one/1"), dial(t, srv, "eye", counting(&sent))
		for range 3 * inFlight {
			node(t, c, "/q/"+guid+"lock-", "one")
		}
		release := make(chan struct{})
		reads := srv.Intercept(zktest.Match{From: zktest.Label("eye"), Op: zktest.OpGetData, Times: -1},
			zktest.HoldReplyUntil(release))
		reader := &Reader{Client: eye}
		done := make(chan error)
		go func() {
			_, err := reader.Path(t.Context(), "/q")
			done <- err
		}()
		synctest.Wait()
		require.EqualValues(t, inFlight, reads.Hits())
		close(release)
		require.NoError(t, <-done)
		require.EqualValues(t, 3+3*inFlight, sent.Load(), "a sync, the list, that of a door, and the reads")
	})
}

// TestLive: a view takes no requests, and a lost connection is reported at once. Views used to read new contenders from
// the servers. If the connection was lost meanwhile, these were left out until it was back, and their lock seemed free.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		var sent atomic.Int64
		c, eye := dial(t, srv, "one/1"), dial(t, srv, "eye", counting(&sent))
		node(t, c, "/q/"+guid+"lock-", "one/1")
		live, err := Follow(eye, "/")
		require.NoError(t, err)
		changes := 0
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = live.Changed(ctx, func() { changes++ }) }()
		synctest.Wait()
		require.Positive(t, changes)
		look := func(current bool, lines ...string) {
			t.Helper()
			before := sent.Load()
			view, err := live.View(t.Context(), 0)
			require.NoError(t, err)
			require.Equal(t, before, sent.Load())
			require.Equal(t, current, view.Current)
			var got []string
			for _, q := range view.Queues {
				got = append(got, line(q))
			}
			require.Equal(t, lines, got)
		}
		look(true, "mutex curator | held | mutex one/1 | ")

		before := changes
		holder := node(t, c, "/r/"+guid+"lock-", "two/2")
		node(t, c, "/r/"+guid+"lock-", "three/3")
		synctest.Wait()
		require.Greater(t, changes, before)
		unanswered := srv.Intercept(zktest.Match{From: zktest.Label("eye"), Op: zktest.OpGetData, Path: holder, Times: -1},
			zktest.Ignore())
		var looking sync.WaitGroup
		looking.Go(func() { _, _ = live.View(t.Context(), 0) })
		synctest.Wait()
		srv.Refuse(zktest.Label("eye"))
		srv.Cut(zktest.Label("eye"))
		looking.Wait()
		synctest.Wait()
		both := []string{"mutex curator | held | mutex one/1 | ", "mutex curator | held | mutex two/2 | mutex three/3"}
		look(false, both...)

		unanswered.Remove()
		srv.Accept(zktest.Label("eye"))
		time.Sleep(time.Minute)
		look(true, both...)
	})
}

// TestBelow_LeavesOutWhatItMayNotRead: one unreadable node used to hide all queues of the ensemble from operators.
func TestBelow_LeavesOutWhatItMayNotRead(t *testing.T) {
	srv := zktest.Run(t)
	c := dial(t, srv, "a")
	secret := zk.DigestACL(zk.PermAll, "joe", "secret")
	node(t, c, "/open/"+guid+"lock-", "web/1")
	_, err := c.Create(t.Context(), "/closed", nil, 0, secret...)
	require.NoError(t, err)
	node(t, c, "/half/"+guid+"lock-", "web/2")
	node(t, c, "/sem/locks/"+guid+"lock-", "web/4")
	_, err = c.Create(t.Context(), "/sem/leases", nil, 0, secret...)
	require.NoError(t, err)
	held, err := c.Create(t.Context(), "/half/"+guid+"lock-", []byte("web/3"), zk.FlagEphemeral|zk.FlagSequence, secret...)
	require.NoError(t, err)

	_, err = (&Reader{Client: c}).Below(t.Context(), "/")
	require.ErrorIs(t, err, zk.ErrNoAuth)

	r := &Reader{Client: c, SkipForbidden: true}
	queues, err := r.Below(t.Context(), "/")
	require.NoError(t, err)
	require.Len(t, queues, 1)
	require.Equal(t, "/open", queues[0].Path)
	require.Equal(t, []string{"/closed", held, "/sem/leases"}, r.Forbidden())

	for _, read := range []func() error{
		func() error { _, err := r.Below(t.Context(), "/closed"); return err },
		func() error { _, err := r.Path(t.Context(), "/closed"); return err },
	} {
		require.ErrorIs(t, read(), zk.ErrNoAuth, "what was asked for by name is not left out")
	}
}
