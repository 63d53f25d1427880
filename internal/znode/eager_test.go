package znode_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
	"github.com/zkrecipes/zkrecipes/internal/wire"
	"github.com/zkrecipes/zkrecipes/internal/znode"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// eager returns a queue whose waiters look early.
func eager(t *testing.T, srv *zktest.Server, label string, opts ...conn.Option) *znode.Queue {
	t.Helper()
	cfg := recipe.Config{Data: []byte("me"), HandOver: zkrecipes.HandOverEager}
	q, err := znode.New(dial(t, srv, label, opts...), path, cfg, znode.Lock)
	require.NoError(t, err)
	return q
}

// file is a holder, waiters behind it that do not look early, and one that does, of the client "me".
type file struct {
	holder *zkrecipes.Hold
	others []*bubble.Attempt
	paths  []string // those of the others
	leave  []func() // makes one of the others give up
	me     *bubble.Attempt
	own    string
}

// behind creates a file with n others.
func behind(t *testing.T, srv *zktest.Server, n int) (f file) {
	t.Helper()
	f.holder = acquire(t.Context(), queue(t, srv, "holder")).Granted(t, time.Hour)
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		other := acquire(ctx, queue(t, srv, string(rune('a'+i))))
		other.Waits(t)
		f.others, f.paths = append(f.others, other), append(f.paths, last(srv))
		f.leave = append(f.leave, func() {
			cancel()
			require.ErrorIs(t, other.Failed(t, time.Second), context.Canceled)
		})
	}
	f.me = acquire(t.Context(), eager(t, srv, "me"))
	f.me.Waits(t)
	f.own = last(srv)
	return f
}

// requireTurn requires that the eager waiter waits while the holder exists, and is granted when it leaves.
func (f file) requireTurn(t *testing.T) {
	t.Helper()
	f.me.Waits(t)
	require.NoError(t, f.holder.Err())
	release(t, f.holder)
	h := f.me.Granted(t, 0)
	require.Equal(t, f.own, h.Path())
	release(t, h)
}

// asked runs do, and returns what the eager client has requested in the meantime.
func asked(srv *zktest.Server, do func()) (reads, lists, all int) {
	var mu sync.Mutex
	kinds := map[zktest.Op]int{}
	synctest.Wait()
	rule := srv.Intercept(zktest.Match{From: zktest.Label("me"), Times: -1, Where: func(q zktest.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		kinds[q.Op]++
		return true
	}}, zktest.Proceed())
	do()
	synctest.Wait()
	rule.Remove()
	return kinds[zktest.OpGetData], kinds[zktest.OpGetChildren2], rule.Hits()
}

// A hand-over between three sessions used to cost two round trips: one for the delete, one for the list after the
// event.
func TestEager_IsArmedBeforeItsTurn(t *testing.T) {
	for name, c := range map[string]struct{ others, lists int }{"third": {1, 0}, "fourth": {2, 1}, "eighth": {6, 1}} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, c.others)
				h := f.holder
				for i, other := range f.others {
					reads, lists, all := asked(srv, func() {
						release(t, h)
						h = other.Granted(t, 0)
						f.me.Waits(t)
					})
					if i+1 < c.others {
						require.Zero(t, all, "others are between")
						continue
					}
					require.Equal(t, 2, reads, "of the predecessor and the own node")
					require.Equal(t, c.lists, lists)
					require.Equal(t, reads+lists, all)
				}
				var mine *zkrecipes.Hold
				_, _, all := asked(srv, func() {
					release(t, h)
					mine = f.me.Granted(t, 0)
				})
				require.Zero(t, all)
				release(t, mine)
				requireEmpty(t, srv)
			})
		})
	}
}

// TestEager_LooksInOneWrite: the two reads and the list are sent together, since each write wakes the server.
func TestEager_LooksInOneWrite(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		f := behind(t, srv, 1)
		var writes [][]int32
		pipe := trial.Pipe{OnWrite: func(frames []byte) {
			var ops []int32
			for ; len(frames) > 0; frames = frames[4+binary.BigEndian.Uint32(frames):] {
				ops = append(ops, int32(binary.BigEndian.Uint32(frames[8:])))
			}
			writes = append(writes, ops)
		}}
		last := acquire(t.Context(), eager(t, srv, "last", trial.Through(srv, pipe)))
		last.Waits(t)
		release(t, f.holder)
		first := f.others[0].Granted(t, 0)
		last.Waits(t)
		before := len(writes)
		release(t, first)
		f.me.Granted(t, 0)
		last.Waits(t)
		require.Equal(t, [][]int32{{wire.OpGetData, wire.OpChildren, wire.OpGetData}}, writes[before:])
	})
}

// TestEager_OthersGiveUp: a contender ahead that gives up leaves those before it as obstacles.
func TestEager_OthersGiveUp(t *testing.T) {
	for name, c := range map[string]struct {
		others int
		do     func(t *testing.T, srv *zktest.Server, f file)
	}{
		"the predecessor of the third": {1, func(_ *testing.T, _ *zktest.Server, f file) { f.leave[0]() }},
		"the predecessor, and then the one two ahead": {2, func(_ *testing.T, _ *zktest.Server, f file) {
			f.leave[1]()
			f.leave[0]()
		}},
		"the one two ahead, and then the predecessor": {2, func(t *testing.T, _ *zktest.Server, f file) {
			t.Helper()
			f.leave[0]()
			f.me.Waits(t)
			f.leave[1]()
		}},
		"both in one transaction": {2, func(t *testing.T, srv *zktest.Server, f file) {
			t.Helper()
			_, err := bubble.Dial(t, srv, "operator").Multi(t.Context(), zkrecipes.OpDelete(f.paths[0], -1),
				zkrecipes.OpDelete(f.paths[1], -1))
			require.NoError(t, err)
			f.me.Waits(t)
			f.leave[0]()
			f.leave[1]()
		}},
		"two of three": {3, func(_ *testing.T, _ *zktest.Server, f file) {
			f.leave[1]()
			f.leave[2]()
			f.leave[0]()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, c.others)
				c.do(t, srv, f)
				f.requireTurn(t)
			})
		})
	}
}

// TestEager_InDoubt: only its deletion shows that the contender two ahead has left. In doubt about it or about its own
// node, the waiter lists.
func TestEager_InDoubt(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, srv *zktest.Server, f file){
		"two ahead changed": func(t *testing.T, srv *zktest.Server, f file) {
			t.Helper()
			require.NoError(t, srv.Set(f.holder.Path(), []byte("x")))
		},
		"own node changed": func(t *testing.T, srv *zktest.Server, f file) {
			t.Helper()
			require.NoError(t, srv.Set(f.own, []byte("x")))
		},
		"event of a change that was none": func(_ *testing.T, srv *zktest.Server, f file) {
			srv.SendEvent(zktest.Label("me"), zktest.NodeDataChanged, f.holder.Path())
		},
		"new connection": func(_ *testing.T, srv *zktest.Server, _ file) {
			srv.Cut(zktest.Label("me"))
			time.Sleep(time.Second)
		},
		"two ahead cannot be read": func(_ *testing.T, srv *zktest.Server, f file) {
			srv.Intercept(zktest.Match{From: zktest.Label("me"), Op: zktest.OpGetData, Path: f.holder.Path()},
				zktest.Fail(zktest.CodeNoAuth))
			srv.Cut(zktest.Label("me"))
			time.Sleep(time.Second)
		},
		"own node cannot be read": func(_ *testing.T, srv *zktest.Server, f file) {
			srv.Intercept(zktest.Match{From: zktest.Label("me"), Op: zktest.OpGetData, Path: f.own},
				zktest.Fail(zktest.CodeNoAuth))
			srv.Cut(zktest.Label("me"))
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, 1)
				disturb(t, srv, f)
				f.me.Waits(t)
				f.leave[0]()
				f.requireTurn(t)
			})
		})
	}
}

// TestEager_LooksAgain: what happens between the look and the turn is seen.
func TestEager_LooksAgain(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, srv *zktest.Server, f file){
		"nothing": func(*testing.T, *zktest.Server, file) {},
		"predecessor changed": func(t *testing.T, srv *zktest.Server, f file) {
			t.Helper()
			require.NoError(t, srv.Set(f.paths[len(f.paths)-1], []byte("x")))
		},
		"own node changed": func(t *testing.T, srv *zktest.Server, f file) {
			t.Helper()
			require.NoError(t, srv.Set(f.own, []byte("x")))
		},
		"new connection": func(_ *testing.T, srv *zktest.Server, _ file) {
			srv.Cut(zktest.Label("me"))
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2} {
				inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
					f := behind(t, srv, n)
					h := f.holder
					for _, other := range f.others {
						release(t, h)
						h = other.Granted(t, 0)
					}
					disturb(t, srv, f)
					f.me.Waits(t)
					release(t, h)
					release(t, f.me.Granted(t, 0))
					requireEmpty(t, srv)
				})
			}
		})
	}
}

// TestEager_ConnectionLostInTheLook: the missing answers are requested again.
func TestEager_ConnectionLostInTheLook(t *testing.T) {
	for name, op := range map[string]zktest.Op{"predecessor": zktest.OpGetData, "list": zktest.OpGetChildren2} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, 2)
				release(t, f.holder)
				h := f.others[0].Granted(t, 0)
				lost := srv.Intercept(zktest.Match{From: zktest.Label("me"), Op: op}, zktest.DropReply())
				release(t, h)
				h = f.others[1].Granted(t, 0)
				time.Sleep(bubble.Timeout)
				require.Equal(t, 1, lost.Hits())
				f.me.Waits(t)
				release(t, h)
				release(t, f.me.Granted(t, 0))
				requireEmpty(t, srv)
			})
		})
	}
}

// TestEager_PredecessorLeavesInTheLook: the answers show it, and grant the waiter no later than a list would.
func TestEager_PredecessorLeavesInTheLook(t *testing.T) {
	for name, op := range map[string]zktest.Op{
		"before it is read": zktest.OpGetData, "before the list": zktest.OpGetChildren2,
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, 2)
				release(t, f.holder)
				h := f.others[0].Granted(t, 0)
				srv.Intercept(zktest.Match{From: zktest.Label("me"), Op: op}, zktest.Before(func(zktest.Request) {
					require.NoError(t, srv.Delete(f.paths[1]))
				}))
				_, _, all := asked(srv, func() {
					release(t, h)
					h = f.me.Granted(t, 0)
				})
				require.LessOrEqual(t, all, 2, "a list and a reading")
				release(t, h)
			})
		})
	}
}

// TestEager_OwnNodeGone: the waiter queues again, whatever is deleted with it or after it.
func TestEager_OwnNodeGone(t *testing.T) {
	for name, remove := range map[string]func(f file, by *conn.Client, srv *zktest.Server) error{
		"alone": func(f file, _ *conn.Client, srv *zktest.Server) error { return srv.Delete(f.own) },
		"unheard, and then the one two ahead": func(f file, _ *conn.Client, srv *zktest.Server) error {
			srv.Freeze() // all events arrive together
			defer srv.Thaw()
			return errors.Join(srv.Delete(f.own), srv.Delete(f.holder.Path()))
		},
		"with the one two ahead": func(f file, by *conn.Client, _ *zktest.Server) error {
			_, err := by.Multi(context.Background(), zkrecipes.OpDelete(f.own, -1), zkrecipes.OpDelete(f.holder.Path(), -1))
			return err
		},
		"behind the one two ahead": func(f file, by *conn.Client, _ *zktest.Server) error {
			_, err := by.Multi(context.Background(), zkrecipes.OpDelete(f.holder.Path(), -1), zkrecipes.OpDelete(f.own, -1))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, 1)
				require.NoError(t, remove(f, bubble.Dial(t, srv, "operator"), srv))
				f.me.Over()
				_ = f.holder.Release(t.Context()) // it may have lost its node
				release(t, f.others[0].Granted(t, time.Hour))
				requireAnotherNode(t, srv, f.me, f.own)
			})
		})
	}
}

// TestEager_EventLost: it costs time, not progress.
func TestEager_EventLost(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		f := behind(t, srv, 1)
		require.Equal(t, 1, srv.LoseWatch(zktest.Label("me"), f.holder.Path()))
		release(t, f.holder)
		release(t, f.others[0].Granted(t, 0))
		f.me.Waits(t)
		release(t, f.me.Granted(t, 3*bubble.Timeout))
		requireEmpty(t, srv)
	})
}

// TestEager_GivesUp_NamesTheHolder: after a look without a list it knows its place and the holder.
func TestEager_GivesUp_NamesTheHolder(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "holder")).Granted(t, time.Hour)
		next := acquire(t.Context(), queue(t, srv, "a"))
		next.Waits(t)
		ctx, cancel := context.WithCancel(t.Context())
		me := acquire(ctx, eager(t, srv, "me"))
		me.Waits(t)
		release(t, holder)
		h := next.Granted(t, 0)
		me.Waits(t)
		cancel()
		var waited *zkrecipes.WaitError
		require.ErrorAs(t, me.Failed(t, 0), &waited)
		require.Equal(t, 2, waited.Position)
		require.Equal(t, 2, waited.Queue)
		require.Equal(t, h.Path(), waited.Holder.Path)
		release(t, h)
		requireEmpty(t, srv)
	})
}

// TestEager_BehindItsOwnSession_IsHandedThePlace: it waits for its predecessor, as without the option.
func TestEager_BehindItsOwnSession_IsHandedThePlace(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		holder := acquire(t.Context(), queue(t, srv, "holder")).Granted(t, time.Hour)
		q := eager(t, srv, "me")
		first := acquire(t.Context(), q)
		first.Waits(t)
		second := acquire(t.Context(), q)
		second.Waits(t)
		// The place is passed on before the event comes.
		deletes := srv.Intercept(zktest.Match{From: zktest.Label("me"), Op: zktest.OpDelete, Times: -1},
			zktest.Delay(time.Millisecond))
		reads, lists, all := asked(srv, func() {
			release(t, holder)
			release(t, first.Granted(t, 0))
			second.Granted(t, 0)
		})
		require.Zero(t, lists)
		require.LessOrEqual(t, reads, 1, "a watch on the parent, for the next call")
		require.Equal(t, reads, all)
		require.Equal(t, 1, deletes.Hits())
		release(t, second.Hold)
		requireEmpty(t, srv)
	})
}

// TestEager_OtherQueues: a queue that kazoo shares, or one of readers and writers, has no eager waiters.
func TestEager_OtherQueues(t *testing.T) {
	for name, kinds := range map[string][]string{
		"kazoo": {znode.Lock, znode.KazooLock}, "readers and writers": {znode.Read, znode.Write},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				e := znode.Entry{Kind: kinds[0], Rule: znode.First}
				var file []*bubble.Attempt
				for _, label := range []string{"a", "b", "c"} {
					q, err := znode.New(dial(t, srv, label), path, recipe.Config{HandOver: zkrecipes.HandOverEager}, kinds...)
					require.NoError(t, err)
					file = append(file, acquireAs(t.Context(), q, e))
					file[len(file)-1].Over()
				}
				holder := file[0].Granted(t, 0)
				require.NotContains(t, srv.Watchers(holder.Path()), srv.SessionOf("c"))
				release(t, holder)
				release(t, file[1].Granted(t, 0))
				release(t, file[2].Granted(t, 0))
			})
		})
	}
}

// TestEager_OwnWatchLost: the server loses the watch on the waiter's node, which is older than the one on the
// predecessor. Then the node is deleted by hand. The look reads it again, so a waiter that received no event is not
// granted a node that is gone.
func TestEager_OwnWatchLost(t *testing.T) {
	for _, others := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
				f := behind(t, srv, others)
				require.Equal(t, 1, srv.LoseWatch(zktest.Label("me"), f.own))
				require.NoError(t, srv.Delete(f.own))
				h := f.holder
				for _, other := range f.others {
					release(t, h)
					h = other.Granted(t, 0)
				}
				f.me.Waits(t)
				release(t, h)
				mine := f.me.Granted(t, 0)
				require.NotEqual(t, f.own, mine.Path())
				release(t, mine)
			})
		})
	}
}

// The waiter's node is deleted before it is watched. The waiter creates another at once, without first waiting behind
// its place.
func TestEager_OwnNodeDeletedBeforeItIsWatched_QueuesAgain(t *testing.T) {
	inBubbleWith(t, true, func(t *testing.T, srv *zktest.Server) {
		deleted := srv.Intercept(zktest.Match{
			From: zktest.Label("me"), Op: zktest.OpGetData,
			Where: func(r zktest.Request) bool {
				return r.Path == last(srv) // its own node
			},
		}, zktest.Before(func(r zktest.Request) { require.NoError(t, srv.Delete(r.Path)) }))
		f := behind(t, srv, 1)
		require.Equal(t, 1, deleted.Hits())
		require.Len(t, srv.Children(path), 3, "the holder, the other, and the new one")
		release(t, f.holder)
		release(t, f.others[0].Granted(t, 0))
		release(t, f.me.Granted(t, 0))
		requireEmpty(t, srv)
	})
}
