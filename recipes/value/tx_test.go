package value_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// accounts returns n numbers below /bank.
func accounts(t testing.TB, c *conn.Client, n int) (all []*value.Value[int64]) {
	t.Helper()
	for i := range n {
		v, err := value.New(c, fmt.Sprint("/bank/", i), value.KazooCounter())
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

var errShort = errors.New("short of money")

// transfer returns a function that moves an amount from one account to another.
func transfer(from, to *value.Value[int64], amount int64) func(*value.Tx) error {
	return func(tx *value.Tx) error {
		a, err := from.Read(tx)
		if err != nil {
			return err
		}
		b, err := to.Read(tx)
		if err != nil {
			return err
		}
		if a < amount {
			return errShort
		}
		return errors.Join(from.Write(tx, a-amount), to.Write(tx, b+amount))
	}
}

// Clients move money between accounts while some replies and requests are lost, and versions wrap. No money is created
// or lost, and no account falls below zero.
func TestUpdateAll_Transfers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const clients, n, each = 4, 5, 25
		bank := accounts(t, bubble.Dial(t, srv, "bank"), n)
		for i, v := range bank {
			_, err := v.Set(t.Context(), 100)
			require.NoError(t, err)
			require.NoError(t, srv.SetVersion(v.Path(), int32(-3-i)))
		}
		for _, fault := range []zktest.Action{zktest.DropReply(), zktest.DropRequest()} {
			srv.Intercept(zktest.Match{Op: zktest.OpMulti, Path: "/bank", Skip: 20, Times: 10}, fault)
		}
		var done atomic.Int32
		var all sync.WaitGroup
		for i := range clients {
			c := bubble.Dial(t, srv, fmt.Sprint("c", i))
			mine := accounts(t, c, n)
			all.Go(func() {
				for range each {
					pair := rand.Perm(n)
					err := value.UpdateAll(t.Context(), c, transfer(mine[pair[0]], mine[pair[1]], rand.Int64N(80)))
					switch {
					case err == nil:
						done.Add(1)
					case !errors.Is(err, zkrecipes.ErrUnknownOutcome):
						assert.ErrorIs(t, err, errShort)
					}
				}
			})
		}
		all.Wait()
		sum := int64(0)
		for _, v := range bank {
			x, _, err := v.Get(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, x, int64(0))
			sum += x
		}
		require.EqualValues(t, 100*n, sum)
		require.Greater(t, done.Load(), int32(clients*each/4))
	})
}

// bank is two numbers as seen by two clients. The first is 5, and the second is missing.
type bank struct {
	srv         *zktest.Server
	client      *conn.Client // of mine
	mine, other []*value.Value[int64]
}

func inBank(t *testing.T, test func(t *testing.T, b bank)) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		b := bank{srv, c, accounts(t, c, 2), accounts(t, bubble.Dial(t, srv, "b"), 2)}
		b.set(t, 0, 5)
		test(t, b)
	})
}

// set writes as the other client.
func (b bank) set(t *testing.T, i int, x int64) {
	t.Helper()
	_, err := b.other[i].Set(t.Context(), x)
	require.NoError(t, err)
}

func (b bank) get(t *testing.T, i int) int64 {
	t.Helper()
	x, _, err := b.other[i].Get(t.Context())
	require.NoError(t, err)
	return x
}

// Another client writes a value that was only read, or creates one that was missing, even at a version that servers
// cannot check. The function is called again, and sees the change.
func TestUpdateAll_WhatIsReadIsChecked(t *testing.T) {
	for _, version := range []int32{0, -3, -2, -1} {
		for read := range 2 {
			inBank(t, func(t *testing.T, b bank) {
				require.NoError(t, b.srv.SetVersion(b.mine[0].Path(), version))
				var seen []int64
				require.NoError(t, value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
					x, err := b.mine[read].Read(tx)
					if seen = append(seen, x); len(seen) == 1 {
						b.set(t, read, 7)
					}
					return errors.Join(err, b.mine[1-read].Write(tx, x))
				}))
				require.Equal(t, []int64{5 * int64(1-read), 7}, seen)
				require.EqualValues(t, 7, b.get(t, 1-read))
			})
		}
	}
}

// An error of the function counts only if the function has read the state of a single moment. Nothing is written then.
func TestUpdateAll_FailsForOneMoment(t *testing.T) {
	inBank(t, func(t *testing.T, b bank) {
		torn := errors.New("of two moments")
		calls := 0
		err := value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
			x, err := b.mine[0].Read(tx)
			if calls++; calls == 1 {
				b.set(t, 0, 0)
				b.set(t, 1, 5)
			}
			y, more := b.mine[1].Read(tx)
			if err := errors.Join(err, more, b.mine[0].Write(tx, 100)); err != nil {
				return err
			}
			if x+y != 5 {
				return torn
			}
			return errShort
		})
		require.Equal(t, errShort, err)
		require.Equal(t, 2, calls)
		require.Zero(t, b.get(t, 0))
	})
}

// Two clients each create a value if the other one is missing, at the same time. One succeeds, and the check leaves no
// value behind.
func TestUpdateAll_Missing(t *testing.T) {
	inBank(t, func(t *testing.T, b bank) {
		require.NoError(t, b.srv.DeleteAll("/bank"))
		var read, all sync.WaitGroup
		read.Add(2)
		for i := range 2 {
			c := bubble.Dial(t, b.srv, fmt.Sprint("c", i))
			vs := accounts(t, c, 2)
			all.Go(func() {
				calls := 0
				assert.NoError(t, value.UpdateAll(t.Context(), c, func(tx *value.Tx) error {
					other, err := vs[1-i].Read(tx)
					if calls++; calls == 1 {
						read.Done()
						read.Wait()
					}
					if err != nil || other != 0 {
						return err
					}
					return vs[i].Write(tx, 1)
				}))
			})
		}
		all.Wait()
		require.Len(t, b.srv.Children("/bank"), 1)
	})
}

// As with Update, nothing is written twice, and what the nodes do not show is an unknown outcome.
func TestUpdateAll_ReplyLost(t *testing.T) {
	for name, tt := range map[string]struct {
		action zktest.Action
		then   func(t *testing.T, b bank)
		want   []int64 // afterwards
		fails  bool    // with an unknown outcome
	}{
		"applied":     {zktest.DropReply(), nil, []int64{6, 6}, true},
		"not applied": {zktest.DropRequest(), nil, []int64{6, 6}, false},
		"not applied, and the first written": {
			zktest.DropRequest(), func(t *testing.T, b bank) { b.set(t, 0, 7) },
			[]int64{8, 8},
			false,
		},
		"not applied, and the first written twice": {
			zktest.DropRequest(),
			func(t *testing.T, b bank) { b.set(t, 0, 1); b.set(t, 0, 7) },
			[]int64{8, 8},
			false,
		},
		"not applied, and the second written": {
			zktest.DropRequest(),
			func(t *testing.T, b bank) { b.set(t, 1, 7) },
			[]int64{6, 6},
			false,
		},
		"not applied, and the second written twice": {
			zktest.DropRequest(),
			func(t *testing.T, b bank) { b.set(t, 1, 1); b.set(t, 1, 7) },
			[]int64{6, 6},
			false,
		},
		"not applied, and both written": {
			zktest.DropRequest(),
			func(t *testing.T, b bank) { b.set(t, 0, 7); b.set(t, 1, 7) },
			[]int64{8, 8},
			false,
		},
		"applied late, when the first has been looked at": {zktest.DropRequest(), func(t *testing.T, b bank) {
			b.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData}, zktest.Before(func(zktest.Request) {
				b.set(t, 0, 6)
				b.set(t, 1, 6)
			}))
		}, []int64{6, 6}, true},
		"not applied, and both written twice": {zktest.DropRequest(), func(t *testing.T, b bank) {
			for i := range 4 {
				b.set(t, i%2, 7)
			}
		}, []int64{7, 7}, true},
		"applied, and the first written": {
			zktest.DropReply(), func(t *testing.T, b bank) { b.set(t, 0, 7) },
			[]int64{7, 6},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBank(t, func(t *testing.T, b bank) {
				b.set(t, 1, 0)
				if tt.then == nil {
					tt.then = func(*testing.T, bank) {}
				}
				mine := zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}
				b.srv.Intercept(mine, tt.action)
				mine.Op, mine.Skip = zktest.OpGetData, 2
				b.srv.Intercept(mine, zktest.Before(func(zktest.Request) { tt.then(t, b) }))
				err := value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
					x, err := b.mine[0].Read(tx)
					return errors.Join(err, b.mine[0].Write(tx, x+1), b.mine[1].Write(tx, x+1))
				})
				if tt.fails {
					require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, tt.want, []int64{b.get(t, 0), b.get(t, 1)})
			})
		})
	}
}

// Either no copy can be applied any more, or nothing shows whether one was.
func TestUpdateAll_ReplyLost_WhatWasReadChanges(t *testing.T) {
	for read := range 2 {
		inBank(t, func(t *testing.T, b bank) {
			written, err := value.New(b.client, "/bank/written", value.KazooCounter())
			require.NoError(t, err)
			_, err = written.Set(t.Context(), 1)
			require.NoError(t, err)
			b.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.DropRequest())
			b.srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Skip: 2},
				zktest.Before(func(zktest.Request) { b.set(t, read, 8) }))
			err = value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
				x, err := b.mine[read].Read(tx)
				return errors.Join(err, written.Write(tx, x+1))
			})
			x, _, unread := written.Get(t.Context())
			require.NoError(t, unread)
			if read == 0 {
				require.NoError(t, err)
				require.EqualValues(t, 9, x)
				return
			}
			require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome, "it was missing, and may be again")
			require.EqualValues(t, 1, x)
		})
	}
}

// There is a read for each value, and one transaction. Reading what was written takes no request.
func TestUpdateAll_Cost(t *testing.T) {
	inBank(t, func(t *testing.T, b bank) {
		b.set(t, 1, 0)
		sent := bubble.Requests(b.srv)
		require.NoError(t, value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
			if err := transfer(b.mine[0], b.mine[1], 2)(tx); err != nil {
				return err
			}
			return transfer(b.mine[1], b.mine[0], 1)(tx)
		}))
		require.Equal(t, 3, sent.Hits())
		require.Equal(t, []int64{4, 1}, []int64{b.get(t, 0), b.get(t, 1)})
		sent.Remove()
		sent = bubble.Requests(b.srv)
		require.NoError(t, value.UpdateAll(t.Context(), b.client, func(*value.Tx) error { return nil }))
		require.Zero(t, sent.Hits())
	})
}

func TestUpdateAll_Fails(t *testing.T) {
	inBank(t, func(t *testing.T, b bank) {
		ok := func(tx *value.Tx) error { return b.mine[0].Write(tx, 6) }
		require.ErrorContains(t, value.UpdateAll(t.Context(), nil, ok), "client is nil")
		require.ErrorContains(t, value.UpdateAll(t.Context(), b.client, nil), "function is nil")
		require.ErrorContains(t, value.UpdateAll(nil, b.client, ok), "context is nil") //nolint:staticcheck // is tested
		sub, err := b.client.Sub("/bank")
		require.NoError(t, err)
		for _, c := range []*conn.Client{sub, bubble.Dial(t, b.srv, "c")} {
			require.ErrorContains(t, value.UpdateAll(t.Context(), c, ok), "want the same client and root for both")
		}
		require.NoError(t, b.srv.Set("/bank/0", []byte("no number")))
		err = value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
			_, err := b.mine[0].Read(tx)
			return err
		})
		require.ErrorContains(t, err, "/bank/0")
		b.srv.Intercept(zktest.Match{Op: zktest.OpGetData}, zktest.Fail(zktest.CodeNoAuth))
		require.ErrorIs(t, value.UpdateAll(t.Context(), b.client, func(tx *value.Tx) error {
			_, _ = b.mine[1].Read(tx) // an error that is dropped counts nevertheless
			return nil
		}), zk.ErrNoAuth)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, value.UpdateAll(ended, b.client, ok), context.Canceled)
		require.NoError(t, b.client.Close())
		require.ErrorIs(t, value.UpdateAll(t.Context(), b.client, ok), zkrecipes.ErrClosed)
		require.Equal(t, "no number", stored(t, b.srv, "/bank/0"))
	})
}

// A transaction that writes nothing is never in doubt, whatever becomes of it.
func TestUpdateAll_WritesNothing_IsNotInDoubt(t *testing.T) {
	for name, fail := range map[string]error{"fails": errShort, "only reads": nil} {
		t.Run(name, func(t *testing.T) {
			inBank(t, func(t *testing.T, b bank) {
				b.srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.HoldReply(time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				err := value.UpdateAll(ctx, b.client, func(tx *value.Tx) error {
					_, err := b.mine[0].Read(tx)
					require.NoError(t, err)
					return fail
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
				if fail != nil {
					require.ErrorIs(t, err, fail)
				}
			})
		})
	}
}
