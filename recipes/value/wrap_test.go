package value_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// wraps are versions from which a few writes pass -1. The last one is -1, which other clients have left.
var wraps = []int32{-5, -3, -2, -1}

// Two callers read before either writes. No update that was reported as done is lost.
func TestUpdate_VersionWraps(t *testing.T) {
	for _, version := range wraps {
		for name, fault := range map[string]zktest.Action{
			"well": zktest.Proceed(), "reply lost": zktest.DropReply(), "not applied": zktest.DropRequest(),
		} {
			t.Run(fmt.Sprint(version, name), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					a, b := text(t, srv, "a"), text(t, srv, "b")
					_, err := a.Set(t.Context(), "x")
					require.NoError(t, err)
					require.NoError(t, srv.SetVersion(path, version))
					srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: path, Times: 2}, fault)
					var updated atomic.Int32
					var read, all sync.WaitGroup
					read.Add(2)
					for _, v := range []*value.Value[string]{a, b} {
						all.Go(func() {
							first := true
							_, _, err := v.Update(t.Context(), func(old string) (string, error) {
								if first {
									first = false
									read.Done()
									read.Wait()
								}
								return old + "x", nil
							})
							if err == nil {
								updated.Add(1)
							} else {
								require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
							}
						})
					}
					all.Wait()
					if name == "well" {
						require.Equal(t, int32(2), updated.Load())
					}
					require.GreaterOrEqual(t, len(stored(t, srv, path)), 1+int(updated.Load()))
				})
			})
		}
	}
}

// Eight clients add while the version passes -1, and some replies are lost. Each addition counts once.
func TestCounter_VersionWraps(t *testing.T) {
	for _, version := range wraps {
		for name, fault := range map[string]zktest.Action{
			"well": zktest.Proceed(), "reply lost": zktest.DropReply(), "not applied": zktest.DropRequest(),
		} {
			t.Run(fmt.Sprint(version, name), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					var counters []*value.Counter
					for i := range 8 {
						counters = append(counters, counter(t, srv, fmt.Sprint(i)))
						add(t, counters[i], 0)
						require.NoError(t, counters[i].Close(t.Context())) // it drops what it has read
					}
					require.NoError(t, srv.SetVersion(path, version))
					srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "^" + path + "$", Times: 6}, fault)
					var all sync.WaitGroup
					for _, c := range counters {
						all.Go(func() {
							for range 4 {
								_, err := c.Add(t.Context(), 1)
								require.NoError(t, err)
							}
						})
					}
					all.Wait()
					require.Equal(t, int64(32), add(t, counters[0], 0))
				})
			})
		}
	}
}

// A transaction on a value that was read at version -1 succeeds only if it is still at that version.
func TestOps_VersionMinusOne(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "c")
		v, err := value.New(c, path, value.Text())
		require.NoError(t, err)
		_, err = v.Set(t.Context(), "old")
		require.NoError(t, err)
		require.NoError(t, srv.SetVersion(path, -1))
		_, old := get(t, v)
		set := opSet(t, v, "new", old)
		remove, err := v.OpDelete(old)
		require.NoError(t, err)
		_, err = v.OpCheck(old)
		require.ErrorContains(t, err, "the data version is -1")

		require.NoError(t, srv.Set(path, []byte("faster")))
		for _, op := range []zkrecipes.Op{set, remove} {
			_, err = c.Multi(t.Context(), op)
			require.ErrorIs(t, err, zk.ErrBadVersion)
		}
		_, err = v.CompareAndSet(t.Context(), old, "new")
		require.ErrorIs(t, err, value.ErrChanged)
		require.Equal(t, "faster", stored(t, srv, path))

		require.NoError(t, srv.SetVersion(path, -1))
		_, err = c.Multi(t.Context(), set)
		require.NoError(t, err)
		require.Equal(t, "new", stored(t, srv, path))
		require.NoError(t, srv.SetVersion(path, -1))
		_, old = get(t, v)
		_, err = v.CompareAndSet(t.Context(), old, "newer")
		require.NoError(t, err)
		_, now := get(t, v)
		require.Zero(t, now.Number)
		require.NoError(t, srv.SetVersion(path, -1))
		_, err = c.Multi(t.Context(), remove)
		require.NoError(t, err)
		require.False(t, srv.Exists(path))
	})
}
