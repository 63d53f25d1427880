package cache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	gopath "path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestRandom writes at random below the root while the connection suffers random faults. The history of the server is
// the oracle: what the cache yields has existed, each path only moves forward, the view is as new as it claims, and
// after quiet the cache has what the server has.
func TestRandom(t *testing.T) {
	seeds := 200
	if testing.Short() || bubble.Race {
		seeds = 50
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				newStorm(t, srv, uint64(seed)).run()
			}, zktest.WithFronts(3))
		})
	}
}

type storm struct {
	*testing.T
	srv    *zktest.Server
	rand   *rand.Rand
	client *conn.Client
	cache  *cache.Cache
	depth  int
	scope  func(path string) cache.Scope // of a node below the root
	bare   bool                          // without data
	lags   bool                          // a front may lag

	mu   sync.Mutex
	told []cache.Change
}

func newStorm(t *testing.T, srv *zktest.Server, seed uint64) *storm {
	s := &storm{T: t, srv: srv, rand: rand.New(rand.NewPCG(seed, 7)), lags: seed%3 == 0}
	var err error
	s.client, err = conn.Dial(t.Context(), srv.Addrs(), conn.WithDialer(srv.DialAs("w")),
		conn.WithSessionTimeout(bubble.Timeout),
		conn.WithTickTime(2*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.client.Close() }) // never fails
	return s
}

func (s *storm) open() {
	of := cache.Tree
	opts := []cache.Option{cache.WithWindow(1 + s.rand.IntN(8))}
	s.scope = func(string) cache.Scope { return cache.Whole }
	if s.rand.IntN(3) == 0 {
		s.scope = func(path string) cache.Scope {
			switch {
			case strings.HasSuffix(path, "/b"):
				return cache.Alone
			case strings.HasSuffix(path, "/a/c"):
				return cache.Nothing
			default:
				return cache.Whole
			}
		}
		opts = append(opts, cache.WithFilter(s.scope))
	}
	if s.bare = s.rand.IntN(4) == 0; s.bare {
		opts = append(opts, cache.WithoutData())
	}
	switch s.rand.IntN(6) {
	case 0:
		of, s.depth = cache.Node, 0
	case 1:
		of, s.depth = cache.Children, 1
	case 2:
		s.depth = 2
		opts = append(opts, cache.WithDepth(2))
	default:
		s.depth = 10
	}
	var err error
	s.cache, err = of(s.client, root, opts...)
	require.NoError(s, err)
}

func (s *storm) run() {
	for range s.rand.IntN(30) {
		s.write()
	}
	s.open()
	ctx, stop := context.WithCancel(s.Context())
	var readers sync.WaitGroup
	readers.Go(func() { s.read(ctx) })
	for range 150 {
		switch s.rand.IntN(12) {
		case 0:
			s.fault()
		case 1:
			time.Sleep(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
		case 2, 3:
			time.Sleep(time.Duration(s.rand.IntN(5)) * time.Millisecond)
		case 4:
			s.look()
		case 5:
			s.sync()
		default:
			s.write()
		}
	}
	s.heal()
	time.Sleep(time.Minute)
	synctest.Wait()
	view := s.cache.View()
	require.True(s, view.Current, "%+v", view)
	require.Zero(s, view.Pending)
	require.Less(s, time.Since(view.AsOf), bubble.Timeout)
	require.Equal(s, s.truth(), content(s.cache))
	require.NoError(s, s.cache.Ready(s.Context()))
	s.checkWatches()
	stop()
	readers.Wait()
	s.checkTold()
	require.NoError(s, s.cache.Close(s.Context()))
	total, _ := s.srv.Watches()
	require.Zero(s, total, "watches are left")
}

// write changes a random node, if the change is possible.
func (s *storm) write() {
	path := root
	for range s.rand.IntN(4) {
		path += "/" + string(rune('a'+s.rand.IntN(3)))
	}
	switch s.rand.IntN(8) {
	case 0, 1, 2:
		_, _ = s.srv.Create(path, []byte{byte(s.rand.IntN(256))}, zktest.Persistent)
	case 3, 4:
		_ = s.srv.Set(path, []byte{byte(s.rand.IntN(256))})
	case 5:
		_ = s.srv.Delete(path)
	case 6:
		_ = s.srv.DeleteAll(path)
	default:
		if s.srv.Delete(path) == nil { // and create it again at once
			_, _ = s.srv.Create(path, []byte("again"), zktest.Persistent)
		}
	}
}

func (s *storm) fault() {
	front := s.srv.Fronts()[s.rand.IntN(3)]
	switch s.rand.IntN(9) {
	case 0:
		s.srv.Cut(watcher)
	case 1:
		s.srv.Expire(s.srv.SessionOf("w"))
	case 2:
		s.srv.Stall(watcher, zktest.Direction(s.rand.IntN(3)))
		time.AfterFunc(time.Duration(s.rand.IntN(20))*time.Second, func() { s.srv.Heal(watcher) })
	case 3:
		s.srv.Intercept(zktest.Match{From: watcher, Skip: s.rand.IntN(10)}, zktest.DropReply())
	case 4:
		s.srv.Intercept(zktest.Match{From: watcher, Skip: s.rand.IntN(10)}, zktest.DropRequest())
	case 5:
		s.srv.Intercept(zktest.Match{From: watcher, Times: s.rand.IntN(10)},
			zktest.HoldReply(time.Duration(s.rand.IntN(100))*time.Millisecond))
	case 6:
		s.srv.Intercept(zktest.Match{From: watcher, Times: s.rand.IntN(3)}, zktest.Fail(zktest.CodeThrottled))
	case 7:
		if s.lags {
			front.Lag()
			time.AfterFunc(time.Duration(s.rand.IntN(5))*time.Second, front.CatchUp)
		}
	default:
		s.srv.Refuse(watcher)
		s.srv.Cut(watcher)
		time.AfterFunc(time.Duration(s.rand.IntN(20))*time.Second, func() { s.srv.Accept(watcher) })
	}
}

func (s *storm) heal() {
	s.srv.Heal(zktest.Everyone)
	s.srv.Accept(zktest.Everyone)
	for _, front := range s.srv.Fronts() {
		front.CatchUp()
	}
}

// truth returns what the server has of what the cache keeps.
func (s *storm) truth() map[string]string {
	want := map[string]string{}
	for _, n := range s.srv.Tree(root) {
		if s.keeps(n.Path) {
			want[n.Path] = show(s.kept(n.Data), n.Stat.Version, n.Stat.Czxid, n.Stat.Mzxid, n.Stat.EphemeralOwner)
		}
	}
	return want
}

// kept returns what the cache keeps of data.
func (s *storm) kept(data []byte) []byte {
	if s.bare {
		return nil
	}
	return data
}

func (s *storm) keeps(path string) bool {
	return path == root || s.scope(path) != cache.Nothing && s.keeps(gopath.Dir(path)) && s.lists(gopath.Dir(path))
}

// lists reports whether the cache follows the children of a node that it keeps.
func (s *storm) lists(path string) bool {
	return strings.Count(path, "/")-strings.Count(root, "/") < s.depth && (path == root || s.scope(path) == cache.Whole)
}

// read takes the changes, at times slowly.
func (s *storm) read(ctx context.Context) {
	slow := rand.New(rand.NewPCG(1, 1))
	for change, err := range s.cache.Watch(ctx) {
		require.NoError(s, err)
		s.mu.Lock()
		s.told = append(s.told, change)
		s.mu.Unlock()
		if slow.IntN(4) == 0 {
			select {
			case <-time.After(time.Duration(slow.IntN(1000)) * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// look compares a snapshot with what the server had at the time that the view reports.
func (s *storm) look() {
	list, view := s.cache.Snapshot()
	got := map[string]cache.Entry{}
	for _, e := range list {
		got[e.Path] = e
	}
	if s.lags {
		return // the server that answers is then behind the history
	}
	type state struct {
		zxid   int64
		exists bool
	}
	had := map[string]state{}
	for _, txn := range s.srv.History() {
		for _, change := range txn.Changes {
			if txn.Time.Before(view.AsOf) {
				had[change.Path] = state{txn.Zxid, change.Kind != zktest.ChangeDelete}
			}
		}
	}
	for path, was := range had {
		if !strings.HasPrefix(path, root) || !s.keeps(path) {
			continue
		}
		e, ok := got[path]
		switch {
		case ok && e.Err == nil:
			require.True(s, e.Mzxid > was.zxid || was.exists && e.Mzxid == was.zxid,
				"%s: older than the view says: %+v", path, e)
		case was.exists && !ok:
			require.Greater(s, s.deleted(path), was.zxid, "%s is missing in a view as of its time", path)
		}
	}
}

// deleted returns the last transaction that deleted the node.
func (s *storm) deleted(path string) (zxid int64) {
	for _, txn := range s.srv.History() {
		for _, change := range txn.Changes {
			if change.Path == path && change.Kind == zktest.ChangeDelete {
				zxid = txn.Zxid
			}
		}
	}
	return zxid
}

// sync compares with the server after a sync, if that succeeds soon.
func (s *storm) sync() {
	ctx, cancel := context.WithTimeout(s.Context(), time.Duration(s.rand.IntN(5000))*time.Millisecond)
	defer cancel()
	if s.cache.Sync(ctx) == nil {
		require.Equal(s, s.truth(), content(s.cache))
	}
}

// checkTold checks what the reader has seen: it has existed, it follows from what the reader saw before, and in the end
// it is the truth.
func (s *storm) checkTold() {
	existed := map[string]map[[2]int64]bool{}
	czxid := map[string]int64{}
	for _, txn := range s.srv.History() {
		for _, change := range txn.Changes {
			if existed[change.Path] == nil {
				existed[change.Path] = map[[2]int64]bool{}
			}
			switch change.Kind {
			case zktest.ChangeCreate:
				czxid[change.Path] = txn.Zxid
				fallthrough
			case zktest.ChangeSet:
				existed[change.Path][[2]int64{czxid[change.Path], txn.Zxid}] = true
			default:
			}
		}
	}
	last := map[string]cache.Entry{}
	newest := map[string]int64{}
	var status cache.Kind
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range s.told {
		e := change.Entry
		was, there := last[e.Path]
		switch change.Kind {
		case cache.Created:
			require.False(s, there, "created twice: %+v", change)
		case cache.Updated:
			require.True(s, there, "%+v", change)
			require.Equal(s, was.Czxid, e.Czxid, "an update of another node")
		case cache.Deleted:
			require.True(s, there, "%+v", change)
			require.Equal(s, [2]int64{was.Czxid, was.Mzxid}, [2]int64{e.Czxid, e.Mzxid})
			delete(last, e.Path)
			continue
		default:
			status = change.Kind
			continue
		}
		require.True(s, existed[e.Path][[2]int64{e.Czxid, e.Mzxid}], "never existed: %+v", e)
		require.Greater(s, e.Mzxid, newest[e.Path], "back in time: %+v", e)
		newest[e.Path], last[e.Path] = e.Mzxid, e
	}
	got := map[string]string{}
	for path, e := range last {
		got[path] = show(e.Data, e.Version, e.Czxid, e.Mzxid, e.EphemeralOwner)
	}
	require.Equal(s, s.truth(), got, "what the reader was told in the end")
	require.Equal(s, cache.Current, status)
}

// checkWatches checks that the client has exactly the watches that the cache needs.
func (s *storm) checkWatches() {
	want := 1 // on the missing root
	if nodes := s.truth(); len(nodes) > 0 {
		want = len(nodes)
		for path := range nodes {
			if s.lists(path) {
				want++
			}
		}
	}
	total, _ := s.srv.Watches()
	require.LessOrEqual(s, total, 2*max(1, len(s.truth())))
	require.Equal(s, want, total)
}
