package zktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

func TestWatch_EachChange_BringsItsEventOnceAndBeforeTheReply(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		data := func(path string) { r.run(OpExists, watchBody(path, true)) }
		child := func(path string) { require.Equal(t, CodeOK, r.do(OpGetChildren, watchBody(path, true))) }
		for _, c := range []struct {
			name   string
			op     Op
			body   func(*proto.Encoder)
			events []event
		}{
			{"create", OpCreate, createBody("/a", 0), []event{{NodeCreated, "/a"}, {NodeChildrenChanged, "/"}}},
			{"set", OpSetData, setBody("/a", nil, -1), []event{{NodeDataChanged, "/a"}}},
			{"delete", OpDelete, versionBody("/a", -1), []event{{NodeDeleted, "/a"}, {NodeChildrenChanged, "/"}}},
		} {
			data("/a")
			if c.op != OpCreate {
				child("/a")
			}
			child("/")
			f, events := r.call(c.op, c.body)
			require.Equal(t, CodeOK, f.code, c.name)
			require.Equal(t, c.events, events, c.name)
		}
		_, events := r.call(OpCreate, createBody("/a", 0))
		require.Empty(t, events, "watches are good for one event")
	})
}

func TestWatch_FailedWritesAndSetACL_BringNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		r.make("/a", Persistent)
		r.run(OpGetData, watchBody("/a", true))
		r.run(OpGetChildren, watchBody("/a", true))
		for _, c := range []struct {
			op   Op
			body func(*proto.Encoder)
		}{
			{OpSetData, setBody("/a", nil, 7)},
			{OpDelete, versionBody("/a", 7)},
			{OpMulti, multiBody(part{OpSetData, setBody("/a", nil, -1)}, part{OpDelete, versionBody("/none", -1)})},
			{OpSetACL, func(e *proto.Encoder) { e.Str("/a"); putACLs(e, anyone); e.Int32(-1) }},
		} {
			_, events := r.call(c.op, c.body)
			require.Empty(t, events)
		}
		total, paths := s.Watches()
		require.Equal(t, []int{2, 1}, []int{total, paths})
	})
}

func TestWatch_ExistsOnAMissingNode_IsSetAndGetDataIsNot(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		require.Equal(t, CodeNoNode, r.do(OpExists, watchBody("/a", true)))
		require.Equal(t, CodeNoNode, r.do(OpGetData, watchBody("/b", true)))
		require.Equal(t, CodeNoNode, r.do(OpGetChildren, watchBody("/b", true)))
		require.Equal(t, []int64{r.session}, s.Watchers("/a"))
		require.Empty(t, s.Watchers("/b"))
		require.NoError(t, r.nc.Close())
		synctest.Wait()
		require.Empty(t, s.Watchers("/a"), "watches go with their connection")
	})
}

func TestWatch_WithoutReadPermission_EventIsWithheld(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		r.run(OpExists, watchBody("/a", true))
		_, events := r.call(OpCreate, createFor("/a", ACL{proto.PermAll &^ proto.PermRead, "world", "anyone"}))
		require.Empty(t, events)
	})
}

func TestSetWatches_TellsWhatWasMissedInOrderAndArmsTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		for _, path := range []string{"/changed", "/same", "/deleted"} {
			r.make(path, Persistent)
		}
		seen := s.Zxid()
		require.NoError(t, s.Set("/changed", []byte("x")))
		_, err := s.Create("/changed/child", nil, Persistent)
		require.NoError(t, err)
		require.NoError(t, s.Delete("/deleted"))
		_, err = s.Create("/new", nil, Persistent)
		require.NoError(t, err)
		_, events := r.call(OpSetWatches, func(e *proto.Encoder) {
			e.Int64(seen)
			e.Strs([]string{"/changed", "/same", "/deleted"})
			e.Strs([]string{"/new", "/later"})
			e.Strs([]string{"/changed", "/same", "/deleted"})
		})
		require.Equal(t, []event{
			{NodeDataChanged, "/changed"},
			{NodeDeleted, "/deleted"},
			{NodeCreated, "/new"},
			{NodeChildrenChanged, "/changed"},
			{NodeDeleted, "/deleted"},
		}, events)
		total, paths := s.Watches()
		require.Equal(t, []int{3, 2}, []int{total, paths})
	})
}

func TestAddWatch_PersistentAndRecursive_StayUntilRemoved(t *testing.T) {
	for _, release := range []Release{Release38, Release39} {
		synctest.Test(t, func(t *testing.T) {
			s := Run(t, InMemory(), WithRelease(release))
			p, r := attachRaw(t, s, "", 10*time.Second), attachRaw(t, s, "", 10*time.Second)
			p.make("/a", Persistent)
			require.Equal(t, CodeOK, p.do(OpAddWatch, versionBody("/a", 0)))
			require.Equal(t, CodeOK, r.do(OpAddWatch, versionBody("/a", 1)))
			for range 2 {
				require.NoError(t, s.Set("/a", nil))
				_, err := s.Create("/a/b", nil, Persistent)
				require.NoError(t, err)
				require.NoError(t, s.Set("/a/b", nil))
				require.NoError(t, s.Delete("/a/b"))
			}
			_, events := p.call(OpPing, nil)
			require.Equal(t, []event{
				{NodeDataChanged, "/a"},
				{NodeChildrenChanged, "/a"},
				{NodeChildrenChanged, "/a"},
				{NodeDataChanged, "/a"},
				{NodeChildrenChanged, "/a"},
				{NodeChildrenChanged, "/a"},
			}, events)
			_, events = r.call(OpPing, nil)
			require.Equal(t, []event{
				{NodeDataChanged, "/a"},
				{NodeCreated, "/a/b"},
				{NodeDataChanged, "/a/b"},
				{NodeDeleted, "/a/b"},
				{NodeDataChanged, "/a"},
				{NodeCreated, "/a/b"},
				{NodeDataChanged, "/a/b"},
				{NodeDeleted, "/a/b"},
			}, events)
			for _, c := range []*raw{p, r} {
				require.Equal(t, CodeOK, c.do(OpCheckWatches, versionBody("/a", anyWatches)))
				require.Equal(t, CodeOK, c.do(OpRemoveWatches, versionBody("/a", anyWatches)))
				require.Equal(t, CodeNoWatcher, c.do(OpRemoveWatches, versionBody("/a", anyWatches)))
			}
		})
	}
}

func TestAddWatch_BesideAOneShotWatch_DependsOnTheRelease(t *testing.T) {
	for release, events := range map[Release]int{Release38: 1, Release39: 2} {
		inBubble(t, func(t *testing.T, s *Server, r *raw) {
			r.make("/a", Persistent)
			r.run(OpAddWatch, versionBody("/a", 0))
			r.run(OpGetData, watchBody("/a", true))
			require.NoError(t, s.Set("/a", nil))
			require.NoError(t, s.Set("/a", nil))
			_, got := r.call(OpPing, nil)
			require.Len(t, got, events)
		}, WithRelease(release))
	}
}

func TestSetWatches2_ArmsPersistentWatches(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		require.Equal(t, CodeOK, r.do(OpSetWatches2, func(e *proto.Encoder) {
			e.Int64(0)
			for _, list := range [][]string{nil, nil, nil, {"/p"}, {"/r"}} {
				e.Strs(list)
			}
		}))
		for _, path := range []string{"/p", "/r", "/r/x"} {
			_, err := s.Create(path, nil, Persistent)
			require.NoError(t, err)
		}
		_, events := r.call(OpPing, nil)
		require.Equal(t, []event{{NodeCreated, "/p"}, {NodeCreated, "/r"}, {NodeCreated, "/r/x"}}, events)
	})
}
