package curator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/others/curator"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

// entries formats the content of our cache as the peer formats its own.
func entries(c *cache.Cache) string {
	all, _ := c.Snapshot()
	var list []string
	for _, e := range all {
		list = append(list, fmt.Sprintf("%s=%d:%s", e.Path, e.Version, e.Data))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// read reads the tree itself.
func read(t *testing.T, c *conn.Client, path string) []string {
	t.Helper()
	must(t, c.Sync(t.Context(), path))
	data, stat, err := c.Get(t.Context(), path)
	must(t, err)
	list := []string{fmt.Sprintf("%s=%d:%s", path, stat.Version, data)}
	names, err := c.Children(t.Context(), path)
	must(t, err)
	for _, name := range names {
		list = append(list, read(t, c, path+"/"+name)...)
	}
	return list
}

// scribble makes n random writes below the path. Their errors do not matter: a node may already exist, be missing, or
// have children.
func scribble(ctx context.Context, c *conn.Client, path string, seed uint64, n int) {
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		at := path
		for range 1 + random.IntN(3) {
			at += "/" + string(rune('a'+random.IntN(3)))
		}
		data := fmt.Append(nil, "go", i)
		switch random.IntN(5) {
		case 0:
			_ = c.Delete(ctx, at, -1)
		case 1:
			_, _ = c.Set(ctx, at, data, -1)
		case 2:
			_, _ = c.Multi(ctx, zkrecipes.OpDelete(at, -1), zkrecipes.OpCreate(at, data, 0, zk.WorldACL(zk.PermAll)...))
		default:
			_ = c.CreateAll(ctx, at, data)
		}
	}
}

func TestCaches(t *testing.T) {
	s := open(t)
	t.Run("random writes", s.cachesAgree)
	t.Run("created again", s.cachesAway)
}

// Curator's CuratorCache and ours follow one subtree, to which both sides write. At rest both match the server.
func (s *stage) cachesAgree(t *testing.T) {
	const path, writes = "/caches/random", 400
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	ask := asker(t, s)
	must(t, s.clients[1].CreateAll(ctx, path, nil))
	ours, err := cache.Tree(s.clients[0], path)
	must(t, err)
	ask("follow", "c", path)
	theirs := s.peer.Begin("scribble", path, 1, writes)
	var writers sync.WaitGroup
	writers.Go(func() { scribble(ctx, s.clients[1], path, 1, writes) })
	writers.Wait()
	_, err = theirs(ctx)
	must(t, err)

	list := read(t, s.clients[1], path)
	slices.Sort(list)
	want := strings.Join(list, " ")
	must(t, ours.Sync(ctx))
	if got := entries(ours); got != want {
		t.Errorf("our cache has\n%s, the server\n%s", got, want)
	}
	poll(t, "Curator's cache has it, too", func() bool { return ask("cached", "c") == want })
	t.Logf("%d writes, %d nodes", 2*writes, len(list))
	ask("unfollow", "c")
	must(t, ours.Close(ctx))
}

// A node is deleted and recreated with the same version, once while the caches are connected, and once while they are
// not. Ours reports it. Curator's compares versions, so its listener does not learn what happened while it was
// disconnected.
func (s *stage) cachesAway(t *testing.T) {
	const path = "/caches/again"
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	way, err := proxy.Open(s.addr)
	must(t, err)
	t.Cleanup(way.Close)
	s.peer.Kill()
	s.peer = curator.Start(t, s.classes, way.Addr(), session, s.event)
	ask := asker(t, s)
	c, err := conn.Dial(ctx, way.Addr(), conn.WithSessionTimeout(session))
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })

	write := func(data string, ops ...zkrecipes.Op) {
		t.Helper()
		_, err := s.clients[1].Multi(ctx, append(ops,
			zkrecipes.OpCreate(path+"/a", []byte(data), 0, zk.WorldACL(zk.PermAll)...))...)
		must(t, err)
	}
	again := zkrecipes.OpDelete(path+"/a", -1)
	must(t, s.clients[1].CreateAll(ctx, path, nil))
	write("first")
	ours, err := cache.Tree(c, path)
	must(t, err)
	changes := make(chan string, 100)
	go func() {
		for change, err := range ours.Watch(ctx) {
			if err == nil && change.Entry.Path == path+"/a" {
				changes <- change.Kind.String() + " " + string(change.Entry.Data)
			}
		}
	}()
	told := func(want ...string) {
		t.Helper()
		for _, w := range want {
			select {
			case got := <-changes:
				if got = strings.TrimSpace(got); got != w {
					t.Fatalf("told %q: want %q", got, w)
				}
			case <-ctx.Done():
				t.Fatalf("not told %q", w)
			}
		}
	}
	ask("follow", "c", path)
	poll(t, "Curator's cache has it", func() bool { return strings.Contains(ask("cached", "c"), "first") })
	told("created first")
	ask("told", "c")

	write("second", again)
	told("deleted", "created second")
	poll(t, "Curator's cache follows", func() bool { return strings.Contains(ask("cached", "c"), "second") })
	t.Log("connected, Curator's cache told:", ask("told", "c"))

	way.Refuse()
	way.Cut()
	write("third", again)
	must(t, way.Accept())
	told("deleted", "created third")
	if got := entries(ours); !strings.Contains(got, "=0:third") {
		t.Errorf("our cache has %s", got)
	}
	// Curator's cache is connected again when it reports a node that is created now.
	must(t, s.clients[1].CreateAll(ctx, path+"/b", nil))
	poll(t, "Curator's cache is connected again", func() bool { return strings.Contains(ask("cached", "c"), path+"/b") })
	t.Logf("while it was away: Curator's cache told %q, and has %q", ask("told", "c"), ask("cached", "c"))
	ask("unfollow", "c")
	must(t, ours.Close(ctx))
}
