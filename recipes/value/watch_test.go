package value_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// watch follows the value on another goroutine. The returned function returns what was yielded since its previous call.
func watch(t *testing.T, v *value.Value[int64]) func() []value.View[int64] {
	t.Helper()
	views := make(chan value.View[int64], 1000)
	go func() {
		for view, err := range v.Watch(t.Context()) {
			if err != nil {
				view.Err = err
			}
			views <- view
		}
	}()
	return func() (told []value.View[int64]) {
		synctest.Wait()
		for len(views) > 0 {
			told = append(told, <-views)
		}
		return told
	}
}

func number(t *testing.T, srv *zktest.Server, label string) *value.Value[int64] {
	t.Helper()
	v, err := value.New(bubble.Dial(t, srv, label), path, value.KazooCounter())
	require.NoError(t, err)
	return v
}

// The node is created, changes, does not decode, is deleted and created again.
func TestWatch(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := number(t, srv, "a"), number(t, srv, "b")
		told := watch(t, b)
		one := func() value.View[int64] {
			t.Helper()
			views := told()
			require.Len(t, views, 1)
			require.True(t, views[0].Current)
			require.Equal(t, time.Now(), views[0].AsOf)
			return views[0]
		}
		require.False(t, one().Version.Exists())
		time.Sleep(time.Second)
		version, err := a.Set(t.Context(), 1)
		require.NoError(t, err)
		view := one()
		require.EqualValues(t, 1, view.Value)
		require.Equal(t, version, view.Version)
		require.NoError(t, srv.Set(path, []byte("one")))
		view = one()
		require.ErrorContains(t, view.Err, "decode "+path)
		require.Zero(t, view.Value)
		require.NoError(t, srv.Delete(path))
		require.False(t, one().Version.Exists())
		_, err = a.Set(t.Context(), 2)
		require.NoError(t, err)
		require.EqualValues(t, 2, one().Value)
		require.Equal(t, []int64{srv.SessionOf("b")}, srv.Watchers(path))
	})
}

// When the last iteration ends, the server has no watch, whether the node exists or not.
func TestWatch_LeavesNoWatch(t *testing.T) {
	for _, exists := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			v := text(t, srv, "a")
			if exists {
				_, err := v.Set(t.Context(), "1")
				require.NoError(t, err)
			}
			first, end := context.WithCancel(t.Context())
			second, endSecond := context.WithCancel(t.Context())
			var loops sync.WaitGroup
			told := make(map[context.Context]int)
			var mu sync.Mutex
			for _, ctx := range []context.Context{first, second} {
				loops.Go(func() {
					for _, err := range v.Watch(ctx) {
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						told[ctx]++
						mu.Unlock()
					}
				})
			}
			time.Sleep(time.Hour) // with many reads
			end()
			synctest.Wait()
			require.NotEmpty(t, srv.Watchers(path))
			_, err := v.Set(t.Context(), "2")
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, 1, told[first])
			require.Equal(t, 2, told[second], "the event")
			endSecond()
			loops.Wait()
			synctest.Wait()
			total, _ := srv.Watches()
			require.Zero(t, total)
		})
	}
}
