package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestFeed_TellsInTheOrderOfTheServer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		for _, path := range []string{"/app", "/app/a", "/app/a/b", "/application"} {
			trial.Create(t, srv, path, path)
		}
		c, err := trial.Dial(t, srv).Sub("/app")
		require.NoError(t, err)
		s, err := trial.Inner(c).Session(t.Context())
		require.NoError(t, err)
		f := s.Follow("/a", trial.NeedsAll)
		defer f.Stop()
		b := f.Batch()
		b.Get("/a", 1)
		b.List("/a", 2)
		b.Exists("/a/x", 3)
		b.Get("/a/y", 4)
		b.Sync(5)
		require.True(t, b.Send())
		require.Equal(t, []string{
			`1: "/app/a" [] <nil>`, `2: "" [b] <nil>`, `3: "" [] exists /a/x: zk: node does not exist`,
			`4: "" [] get /a/y: zk: node does not exist`, `5: "" [] <nil>`,
		}, trial.NewsOf(f))
		require.False(t, f.Idle(), "the reader may still be dealing with what it took")
		require.Empty(t, f.Take())
		require.True(t, f.Idle())

		// Another caller's watch outside of the path is not notified.
		_, _, w, err := trial.Live(t, trial.Dial(t, srv)).GetW(t.Context(), "/application")
		require.NoError(t, err)
		require.NoError(t, srv.Set("/application", nil))
		synctest.Wait()
		require.True(t, w.HasFired())

		heard := f.LastContact()
		require.NoError(t, srv.Set("/app/a", nil))
		require.NoError(t, srv.Delete("/app/a/b"))
		synctest.Wait()
		srv.Cut(trial.Ours)
		time.Sleep(time.Second)
		require.Equal(t, []string{"EventNodeDataChanged /a", "EventNodeChildrenChanged /a", "down", "up"}, trial.NewsOf(f))
		require.False(t, f.LastContact().Before(heard))
		require.False(t, f.IsDown())
	})
}

func TestFeed_Down_IsKnownBeforeItIsTaken(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		f := trial.Live(t, trial.Dial(t, srv)).Follow("/", trial.NeedsAll)
		defer f.Stop()
		trial.CutOff(srv, trial.Ours)
		synctest.Wait()
		require.True(t, f.IsDown())
		require.False(t, f.Idle())
		require.False(t, func() bool { b := f.Batch(); b.Get("/", nil); return b.Send() }())
		require.Equal(t, []string{"down"}, trial.NewsOf(f))
		require.Empty(t, trial.NewsOf(f), "no answer comes to what was not sent")
	})
}

func TestFeed_SetWatches_TellsWhatWasMissed(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Grow(t, srv, "/changed", "/same", "/gone")
		f := trial.Live(t, trial.Dial(t, srv)).Follow("/", trial.NeedsAll)
		defer f.Stop()
		since := srv.Zxid()
		require.NoError(t, srv.Set("/changed", nil))
		require.NoError(t, srv.Delete("/gone"))
		b := f.Batch()
		b.SetWatches(since, []string{"/changed", "/same", "/gone"}, []string{"/later"}, []string{"/same"}, "set")
		require.True(t, b.Send())
		require.Equal(t, []string{"EventNodeDataChanged /changed", "EventNodeDeleted /gone", `set: "" [] <nil>`},
			trial.NewsOf(f))
		require.Equal(t, 3, trial.Watches(srv))
		trial.Create(t, srv, "/later", "")
		require.Equal(t, []string{"EventNodeCreated /later"}, trial.NewsOf(f))
	})
}

// Whatever other callers wait for on the same connection is not lost with the watches that a feed removes.
func TestFeed_RemoveWatches_WakesOtherWaiters(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		_, _, w, err := s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		f, other := s.Follow("/a", trial.NeedsAll), s.Follow("/", trial.NeedsAll)
		defer f.Stop()
		remove := func() int {
			b := f.Batch()
			b.RemoveWatches("/a", nil)
			b.Send()
			return b.Len()
		}
		require.Zero(t, remove(), "another feed needs it")
		require.Equal(t, 1, trial.Watches(srv))
		other.Stop()
		require.Equal(t, 1, remove())
		require.Zero(t, trial.Watches(srv))
		require.True(t, w.HasFired())
		_, _, w, err = s.GetW(t.Context(), "/a")
		require.NoError(t, err)
		require.False(t, w.HasFired())
	})
}

// Another feed needs only the watch on the data. A caller that waits for the children reads again, while a caller that
// waits for the data does not.
func TestFeed_RemoveWatches_OfTheChildrenAlone(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/app", "")
		trial.Create(t, srv, "/app/a", "")
		c := trial.Dial(t, srv)
		sub, err := c.Sub("/app")
		require.NoError(t, err)
		s := trial.Live(t, c)
		_, _, data, err := s.GetW(t.Context(), "/app/a")
		require.NoError(t, err)
		_, children, err := s.ChildrenW(t.Context(), "/app/a")
		require.NoError(t, err)
		f := s.Follow("/app", trial.NeedsAll)
		defer f.Stop()
		other := trial.Live(t, sub).Follow("/", func(path string) (data, children bool) {
			require.Equal(t, "/a", path)
			return true, false
		})
		defer other.Stop()
		b := f.Batch()
		b.RemoveWatches("/app/a", nil)
		require.True(t, b.Send())
		require.Equal(t, []string{"EventNodeChildrenChanged /a"}, trial.NewsOf(other))
		require.Equal(t, 1, trial.Watches(srv))
		require.True(t, children.HasFired())
		require.False(t, data.HasFired())
	})
}

// The other feed begins after the request was made, and its read is sent first, so its watch is set and then removed.
func TestFeed_RemoveWatches_OfAFeedThatJustBegan_IsTold(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		trial.Create(t, srv, "/a", "")
		s := trial.Live(t, trial.Dial(t, srv))
		f := s.Follow("/a", trial.NeedsAll)
		read := f.Batch()
		read.Get("/a", nil)
		require.True(t, read.Send())
		remove := f.Batch()
		remove.RemoveWatches("/a", nil)

		other := s.Follow("/a", trial.NeedsAll)
		defer other.Stop()
		b := other.Batch()
		b.Get("/a", "read")
		require.True(t, b.Send())
		require.True(t, remove.Send())
		f.Stop()
		require.Equal(t, []string{`read: "" [] <nil>`, "EventNodeDeleted /a"}, trial.NewsOf(other), "it must read again")
		require.Zero(t, trial.Watches(srv))
	})
}

// The server learns of the end, and may take a second to answer. Until then the connection exists.
func TestFeed_SessionRunsOut_IsDownAtOnce(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Dial(t, srv)
		s := trial.Live(t, c)
		f := s.Follow("/", trial.NeedsAll)
		defer f.Stop()
		srv.Stall(trial.Ours, zktest.ToServer)
		go func() { _ = c.Close() }() // never fails
		<-s.Done()
		require.True(t, f.IsDown())
	})
}

func TestFeed_SessionEnds_IsDown(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		s := trial.Live(t, trial.Dial(t, srv))
		f := s.Follow("/", trial.NeedsAll)
		defer f.Stop()
		srv.Expire(s.ID())
		<-s.Done()
		require.Equal(t, []string{"down"}, trial.NewsOf(f))
	})
}

func TestClient_Go_EndsWithTheClient(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		c := trial.Inner(trial.Dial(t, srv))
		ended := false
		require.True(t, c.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		}))
		require.NoError(t, c.Close())
		require.True(t, ended)
		require.False(t, c.Go(func(context.Context) { t.Error("it runs") }))
	})
}
