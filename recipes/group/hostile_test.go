package group_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// hostile runs f with a server that keeps no history, in virtual time.
func hostile(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithHistory(0))
		for _, parent := range []string{"/app", path} {
			create(t, srv, parent, nil)
		}
		f(t, srv)
	})
}

func create(t *testing.T, srv *zktest.Server, path string, data []byte) {
	t.Helper()
	_, err := srv.Create(path, data, zktest.Persistent)
	require.NoError(t, err)
}

// shows requires that the newest view has the members of the server, in their order.
func shows(t *testing.T, srv *zktest.Server, v *newest) {
	t.Helper()
	synctest.Wait()
	require.True(t, v.view.Current)
	require.Len(t, v.view.Members, len(srv.Children(path)))
	for i, m := range v.view.Members {
		n, ok := srv.Node(m.Path)
		require.True(t, ok, m.Path)
		require.Equal(t, n.Stat.Czxid, m.Czxid)
		require.True(t, i == 0 || v.view.Members[i-1].Czxid < m.Czxid)
	}
}

// newest is the last view of a watch. Tests read it when no other goroutine runs.
type newest struct{ view group.View }

func follow(t *testing.T, g *group.Group, opts ...group.WatchOption) *newest {
	t.Helper()
	v := &newest{}
	go func() {
		for view, err := range g.Watch(t.Context(), opts...) {
			if err == nil {
				v.view = view
			}
		}
	}()
	synctest.Wait()
	return v
}

// Without payloads a watch keeps none of the data.
func TestHostile_MembersOfAMegabyte(t *testing.T) {
	hostile(t, func(t *testing.T, srv *zktest.Server) {
		const members = 10
		for i := range members {
			create(t, srv, fmt.Sprintf("%s/m%d", path, i), bytes.Repeat([]byte{byte(i)}, 1<<20-1000))
		}
		g := open(t, bubble.Dial(t, srv, "w"))
		before := bubble.Heap()
		names := follow(t, g)
		shows(t, srv, names)
		require.Less(t, bubble.Heap()-before, int64(3<<20), "one is on its way")

		data := follow(t, g, group.WithPayloads())
		changed := bytes.Repeat([]byte("x"), 1<<20-1000)
		require.NoError(t, srv.Set(path+"/m3", changed))
		shows(t, srv, data)
		require.True(t, bytes.Equal(changed, data.view.Members[3].Data))
		require.Less(t, bubble.Heap()-before, int64((members+4)<<20))
	})
}

// Each member is read once. After that a change costs a list, and the read of a new member.
func TestHostile_ManyMembers(t *testing.T) {
	members := 70_000
	if testing.Short() || bubble.Race {
		members = 3000
	}
	hostile(t, func(t *testing.T, srv *zktest.Server) {
		for i := range members {
			create(t, srv, fmt.Sprintf("%s/a-name-of-some-length-%06d", path, i), nil)
		}
		g := open(t, bubble.Dial(t, srv, "w"))
		before, count := bubble.Heap(), bubble.Requests(srv)
		v := follow(t, g)
		shows(t, srv, v)
		require.LessOrEqual(t, count.Hits(), members+members/10)
		each := (bubble.Heap() - before) / int64(members)
		t.Logf("%d bytes a member", each)
		require.Less(t, each, int64(1200))
		count.Remove()
		count = bubble.Requests(srv)
		for i := range 3 {
			require.NoError(t, srv.Delete(fmt.Sprintf("%s/a-name-of-some-length-%06d", path, i)))
			create(t, srv, fmt.Sprintf("%s/new-%d", path, i), nil)
			synctest.Wait()
		}
		shows(t, srv, v)
		require.LessOrEqual(t, count.Hits(), 12)
	})
}

// A member joins and leaves for as long as a slow reader is busy.
func TestHostile_DeletedAndMadeAgain(t *testing.T) {
	hostile(t, func(t *testing.T, srv *zktest.Server) {
		create(t, srv, path+"/a", nil)
		create(t, srv, path+"/b", nil)
		g := open(t, bubble.Dial(t, srv, "w"))
		back := make(chan struct{})
		v, slow := follow(t, g, group.WithPayloads()), &newest{}
		go func() {
			for view, err := range g.Watch(t.Context()) {
				if err == nil {
					slow.view = view
					<-back
				}
			}
		}()
		synctest.Wait()
		times := 10_000
		if bubble.Race {
			times = 500
		}
		before, goroutines, count := bubble.Heap(), bubble.Goroutines(), bubble.Requests(srv)
		for i := range times {
			require.NoError(t, srv.Delete(path+"/a"))
			create(t, srv, path+"/a", []byte(fmt.Sprint(i)))
			if i%10 == 0 {
				synctest.Wait()
			}
		}
		shows(t, srv, v)
		require.Equal(t, fmt.Sprint(times-1), string(v.view.Members[1].Data))
		require.Less(t, bubble.Heap()-before, int64(1<<20))
		require.LessOrEqual(t, bubble.Goroutines(), goroutines+2)
		require.LessOrEqual(t, count.Hits(), 8*times)
		close(back)
		shows(t, srv, slow)
	})
}
