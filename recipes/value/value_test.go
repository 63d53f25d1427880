package value_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/fakehold"
)

// text returns the value as seen by a separate client.
func text(t *testing.T, srv *zktest.Server, label string) *value.Value[string] {
	t.Helper()
	v, err := value.New(bubble.Dial(t, srv, label), path, value.Text())
	require.NoError(t, err)
	return v
}

func get(t *testing.T, v *value.Value[string]) (string, value.Version) {
	t.Helper()
	x, version, err := v.Get(t.Context())
	require.NoError(t, err)
	return x, version
}

func TestNew_Refuses(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		for _, bad := range []struct {
			path  string
			codec value.Codec[string]
			want  string
		}{
			{"app", value.Text(), "relative"},
			{"/", value.Text(), "root"},
			{path, value.Codec[string]{Encode: value.Text().Encode}, "lacks a function"},
			{path, value.Codec[string]{Decode: value.Text().Decode}, "lacks a function"},
		} {
			_, err := value.New(c, bad.path, bad.codec)
			require.ErrorContains(t, err, bad.want)
		}
		_, err := value.NewCounter(c, path, value.Codec[int64]{
			Encode: func(int64) ([]byte, error) { return nil, errors.New("no zero") }, Decode: value.AtomicLong().Decode,
		})
		require.ErrorContains(t, err, "no zero")
	})
}

// What one client writes, the other one reads.
func TestValue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a, b := text(t, srv, "a"), text(t, srv, "b")
		x, none := get(t, a)
		require.Equal(t, "", x)
		require.False(t, none.Exists())
		first, err := a.CompareAndSet(t.Context(), none, "1")
		require.NoError(t, err)
		x, seen := get(t, b)
		require.Equal(t, "1", x)
		require.Equal(t, first, seen)
		_, err = b.CompareAndSet(t.Context(), none, "2")
		require.ErrorIs(t, err, value.ErrChanged)
		second, err := b.CompareAndSet(t.Context(), seen, "2")
		require.NoError(t, err)
		require.Greater(t, second.Mzxid, first.Mzxid)
		_, err = a.CompareAndSet(t.Context(), first, "3")
		require.ErrorIs(t, err, value.ErrChanged)
		third, err := a.Set(t.Context(), "3")
		require.NoError(t, err)
		x, fourth, err := b.Update(t.Context(), func(x string) (string, error) { return x + "4", nil })
		require.NoError(t, err)
		require.Equal(t, "34", x)
		require.Equal(t, third.Czxid, fourth.Czxid)
		x, seen = get(t, a)
		require.Equal(t, "34", x)
		require.Equal(t, fourth, seen)
		stop := errors.New("stop")
		_, _, err = b.Update(t.Context(), func(string) (string, error) { return "", stop })
		require.ErrorIs(t, err, stop)
		require.Equal(t, "34", stored(t, srv, path))
	})
}

// The node has the version that was read, but is a different one.
func TestCompareAndSet_NodeMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := text(t, srv, "a")
		_, err := a.Set(t.Context(), "1")
		require.NoError(t, err)
		_, old := get(t, a)
		require.NoError(t, srv.Delete(path))
		_, err = srv.Create(path, []byte("new"), zktest.Persistent)
		require.NoError(t, err)
		require.NoError(t, srv.Set(path, []byte("new")))
		_, now := get(t, a)
		require.Equal(t, old.Number, now.Number)
		_, err = a.CompareAndSet(t.Context(), old, "2")
		require.ErrorIs(t, err, value.ErrChanged)
		require.NoError(t, srv.Delete(path))
		_, err = a.CompareAndSet(t.Context(), now, "2")
		require.ErrorIs(t, err, value.ErrChanged)
	})
}

// The node is deleted between the read and the write.
func TestCompareAndSet_DeletedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		a := text(t, srv, "a")
		old, err := a.Set(t.Context(), "1")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{Op: zktest.OpMulti},
			zktest.Before(func(zktest.Request) { require.NoError(t, srv.Delete(path)) }))
		_, err = a.CompareAndSet(t.Context(), old, "2")
		require.ErrorIs(t, err, value.ErrChanged)
	})
}

// The connection breaks at the write. A write that reports success was applied, and one that reports failure was not.
func TestWrite_RequestOrReplyLost(t *testing.T) {
	type write func(context.Context, *value.Value[string], value.Version) error
	writes := map[string]write{
		"set": func(ctx context.Context, v *value.Value[string], _ value.Version) error {
			_, err := v.Set(ctx, "mine")
			return err
		},
		"compare and set": func(ctx context.Context, v *value.Value[string], old value.Version) error {
			_, err := v.CompareAndSet(ctx, old, "mine")
			return err
		},
		"update": func(ctx context.Context, v *value.Value[string], _ value.Version) error {
			_, _, err := v.Update(ctx, func(string) (string, error) { return "mine", nil })
			return err
		},
	}
	type rival struct {
		name  string
		value string // written by another client while the first does not know; empty for none
	}
	for name, write := range writes {
		for lost, action := range map[string]zktest.Action{
			"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
		} {
			for _, exists := range []bool{true, false} {
				for _, other := range []rival{{"alone", ""}, {"another value", "theirs"}, {"the same value", "mine"}} {
					t.Run(fmt.Sprintf("%s/%s/exists=%v/%s", name, lost, exists, other.name), func(t *testing.T) {
						inBubble(t, func(t *testing.T, srv *zktest.Server) {
							a, b := text(t, srv, "a"), text(t, srv, "b")
							_, err := srv.Create("/app", nil, zktest.Persistent)
							require.NoError(t, err)
							var old value.Version
							if exists {
								old, err = b.Set(t.Context(), "old")
								require.NoError(t, err)
							}
							srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, action)
							if other.value != "" { // after the read that precedes the write
								srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Skip: 1},
									zktest.Before(func(zktest.Request) {
										_, err := b.Set(context.Background(), other.value)
										require.NoError(t, err)
									}))
							}
							err = write(t.Context(), a, old)
							mine := applied(srv, "a")
							switch {
							case err == nil && name == "set":
								require.Equal(t, "mine", stored(t, srv, path))
							case err == nil:
								require.Equal(t, 1, mine)
							case errors.Is(err, value.ErrChanged):
								require.Zero(t, mine)
							default:
								require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
								require.False(t, lost == "not applied" && exists && other.value != "mine", "it can be known: %v", err)
							}
						})
					})
				}
			}
		}
	}
}

// A write that created the node is not applied again after another client has deleted the node.
func TestWrite_DeletedAfterALostReply(t *testing.T) {
	for name, write := range map[string]func(context.Context, *value.Value[string]) error{
		"set": func(ctx context.Context, v *value.Value[string]) error {
			_, err := v.Set(ctx, "mine")
			return err
		},
		"compare and set": func(ctx context.Context, v *value.Value[string]) error {
			_, err := v.CompareAndSet(ctx, value.Version{}, "mine")
			return err
		},
		"update": func(ctx context.Context, v *value.Value[string]) error {
			_, _, err := v.Update(ctx, func(string) (string, error) { return "mine", nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				a := text(t, srv, "a")
				_, err := srv.Create("/app", nil, zktest.Persistent)
				require.NoError(t, err)
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.DropReply())
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpGetData, Skip: 1},
					zktest.Before(func(zktest.Request) {
						require.NoError(t, srv.Delete(path))
					}))
				require.ErrorIs(t, write(t.Context(), a), zkrecipes.ErrUnknownOutcome)
				require.Equal(t, 1, applied(srv, "a"))
				require.False(t, srv.Exists(path))
			})
		})
	}
}

// Reads and refusals reflect the state of the leader, even if the server lags behind.
func TestServerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory(), zktest.WithFronts(3))
		front := srv.Fronts()[2]
		a, err := value.New(bubble.Dial(t, srv, "a"), path, value.Text())
		require.NoError(t, err)
		c, err := conn.Dial(t.Context(), front.Addr(), conn.WithDialer(front.DialAs("b")),
			conn.WithSessionTimeout(bubble.Timeout), bubble.Silent)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		b, err := value.New(c, path, value.Text())
		require.NoError(t, err)
		late := func(write func()) { // b's server gets the write 100 ms after b reads
			synctest.Wait()
			front.Lag()
			write()
			time.AfterFunc(100*time.Millisecond, front.CatchUp)
		}
		var version value.Version
		late(func() {
			version, err = a.Set(t.Context(), "1")
			require.NoError(t, err)
		})
		_, err = b.CompareAndSet(t.Context(), version, "2")
		require.NoError(t, err)
		late(func() {
			_, err = a.Set(t.Context(), "3")
			require.NoError(t, err)
		})
		x, _, err := b.Update(t.Context(), func(x string) (string, error) {
			if x != "3" {
				return "", errors.New("old")
			}
			return "4", nil
		})
		require.NoError(t, err)
		require.Equal(t, "4", x)
		late(func() {
			_, err = a.Set(t.Context(), "5")
			require.NoError(t, err)
		})
		x, _ = get(t, b)
		require.Equal(t, "5", x)
	})
}

// Another client writes between the read and the write.
func TestUpdate_AnotherIsFaster(t *testing.T) {
	for _, exists := range []bool{true, false} {
		t.Run(fmt.Sprintf("exists=%v", exists), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				a, b := text(t, srv, "a"), text(t, srv, "b")
				_, err := srv.Create("/app", nil, zktest.Persistent)
				require.NoError(t, err)
				if exists {
					_, err := srv.Create(path, nil, zktest.Persistent)
					require.NoError(t, err)
				}
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.Before(func(zktest.Request) {
					_, err := b.Set(context.Background(), "b")
					require.NoError(t, err)
				}))
				x, _, err := a.Update(t.Context(), func(x string) (string, error) { return x + "a", nil })
				require.NoError(t, err)
				require.Equal(t, "ba", x)
				require.Equal(t, "ba", stored(t, srv, path))
			})
		})
	}
}

// Update sends the same data again. If it called the function again, new data would not show whether the first write
// was applied.
func TestUpdate_RequestLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, err := text(t, srv, "b").Set(t.Context(), "old")
		require.NoError(t, err)
		srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti}, zktest.DropRequest())
		calls := 0
		x, _, err := text(t, srv, "a").Update(t.Context(), func(string) (string, error) {
			calls++
			return fmt.Sprint(calls), nil
		})
		require.NoError(t, err)
		require.Equal(t, "1", x)
		require.Equal(t, 1, calls)
		require.Equal(t, "1", stored(t, srv, path))
	})
}

// holder returns a value and a hold of the same client.
func holder(t *testing.T, srv *zktest.Server, label string) (*value.Value[string], *zkrecipes.Hold) {
	t.Helper()
	c := bubble.Dial(t, srv, label)
	v, err := value.New(c, path, value.Text())
	require.NoError(t, err)
	m, err := mutex.New(c, "/app/lock")
	require.NoError(t, err)
	h, err := m.Lock(t.Context())
	require.NoError(t, err)
	return v, h
}

func TestSetHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v, h := holder(t, srv, "a")
		first, err := v.SetHeld(t.Context(), h, "1") // creates the node
		require.NoError(t, err)
		second, err := v.SetHeld(t.Context(), h, "2")
		require.NoError(t, err)
		require.Equal(t, first.Czxid, second.Czxid)
		x, version := get(t, v)
		require.Equal(t, "2", x)
		require.Equal(t, second, version)
		require.NoError(t, h.Release(t.Context()))
		_, err = v.SetHeld(t.Context(), h, "3")
		require.ErrorIs(t, err, zkrecipes.ErrFenced)
		require.Equal(t, "2", stored(t, srv, path))
	})
}

// The path of the value would be another node, or the hold could not guard the write. The error names both sides, and
// nothing is sent.
func TestSetHeld_HoldOfAnotherClient(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		sub := func(c *conn.Client, prefix string) *conn.Client {
			s, err := c.Sub(prefix)
			require.NoError(t, err)
			return s
		}
		below, again := sub(c, "/sub"), sub(c, "/sub")
		other, elsewhere := bubble.Dial(t, srv, "b"), bubble.Dial(t, zktest.Run(t, zktest.InMemory()), "c")
		for i, x := range []struct {
			value, hold *conn.Client
			ok          bool
		}{
			{c, c, true},
			{c, sub(c, "/"), true},
			{again, below, true},
			{sub(c, "/sub/sub"), sub(below, "/sub"), true},
			{below, c, false},
			{c, below, false},
			{below, sub(c, "/other"), false},
			{other, c, false},
			{sub(other, "/sub"), below, false},
			{elsewhere, c, false},
		} {
			v, err := value.New(x.value, "/v", value.Text())
			require.NoError(t, err)
			m, err := mutex.New(x.hold, "/lock")
			require.NoError(t, err)
			h, err := m.Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			refused := srv.Intercept(zktest.Match{Times: -1}, zktest.Fail(zktest.CodeNoAuth))
			if x.ok {
				refused.Remove()
			}
			_, err = v.SetHeld(t.Context(), h, "1")
			refused.Remove()
			if x.ok {
				require.NoError(t, err, i)
			} else {
				require.ErrorContains(t, err, "want the same client and root for both", i)
				require.ErrorContains(t, err, h.Path())
				require.Zero(t, refused.Hits(), i)
			}
			require.NoError(t, h.Release(t.Context()))
		}
	})
}

// A nested hold belongs to the client through which it was acquired, even if the contender is another client's.
func TestSetHeld_NestedHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		sub, err := c.Sub("/sub")
		require.NoError(t, err)
		ctx := t.Context()
		for _, x := range []struct {
			client, other *conn.Client
			path          string
		}{{c, sub, "/sub/lock"}, {sub, c, "/lock"}} {
			m, err := mutex.New(x.client, x.path, mutex.WithReentrance())
			require.NoError(t, err)
			h, err := m.Lock(ctx)
			require.NoError(t, err)
			v, err := value.New(x.client, "/v", value.Text())
			require.NoError(t, err)
			_, err = v.SetHeld(t.Context(), h, "1")
			require.NoError(t, err)
			v, err = value.New(x.other, "/v", value.Text())
			require.NoError(t, err)
			_, err = v.SetHeld(t.Context(), h, "1")
			require.ErrorContains(t, err, "same client and root")
			ctx = h.Context() //nolint:fatcontext // two of them
		}
		require.Len(t, srv.Children("/sub/lock"), 1)
	})
}

// A program may test its own code with a hold that it has made, whatever its context is.
func TestSetHeld_HoldMadeForATest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		_, held := holder(t, srv, "a")
		_, err := text(t, srv, "b").SetHeld(t.Context(), fakehold.New(held.Context(), 1).Hold, "1")
		require.ErrorContains(t, err, "a hold of fakehold has no server")
	})
}

// Parents are created as for every recipe.
func TestSetHeld_NodeBelowMissingParents(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		v, err := value.New(c, "/deep/down/value", value.Text())
		require.NoError(t, err)
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		_, err = v.SetHeld(t.Context(), h, "1")
		require.NoError(t, err)
		require.Equal(t, "1", stored(t, srv, "/deep/down/value"))
	})
}

// The write of a holder arrives after the next holder has written.
func TestSetHeld_LateWrite(t *testing.T) {
	for _, exists := range []bool{true, false} {
		t.Run(fmt.Sprintf("exists=%v", exists), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				v, h := holder(t, srv, "a")
				if exists {
					_, err := v.SetHeld(t.Context(), h, "old")
					require.NoError(t, err)
				}
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "^" + path + "$"},
					zktest.Before(func(zktest.Request) {
						require.NoError(t, srv.Delete(h.Path())) // as when its session expires
						next, held := holder(t, srv, "b")
						_, err := next.SetHeld(context.Background(), held, "new")
						require.NoError(t, err)
					}))
				_, err := v.SetHeld(t.Context(), h, "late")
				require.ErrorIs(t, err, zkrecipes.ErrFenced)
				require.Equal(t, "new", stored(t, srv, path))
			})
		})
	}
}

// The node shows whether the value was written.
func TestSetHeld_ReplyLost(t *testing.T) {
	for name, action := range map[string]zktest.Action{
		"not applied": zktest.DropRequest(), "applied": zktest.DropReply(),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				v, h := holder(t, srv, "a")
				_, err := v.SetHeld(t.Context(), h, "old")
				require.NoError(t, err)
				srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: zktest.OpMulti, Path: "^" + path + "$"}, action)
				_, err = v.SetHeld(t.Context(), h, "new")
				require.NoError(t, err)
				require.Equal(t, "new", stored(t, srv, path))
				require.Equal(t, 2, applied(srv, "a"))
			})
		})
	}
}

// A write that was not sent continues in the next session.
func TestSet_SessionEndsBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v := text(t, srv, "a")
		srv.Expire(srv.SessionOf("a"))
		_, err := v.Set(t.Context(), "1")
		require.NoError(t, err)
	})
}

// The error names the path and reports that the node is empty.
func TestJSON_EmptyNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		require.NoError(t, c.CreateAll(t.Context(), path, nil))
		v, err := value.New(c, path, value.JSON[int]())
		require.NoError(t, err)
		_, _, err = v.Get(t.Context())
		require.EqualError(t, err, "decode "+path+": the node is empty: want JSON")
	})
}

func TestCodecs(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec value.Codec[int64]
		x     int64
		bytes string
	}{
		{"AtomicLong", value.AtomicLong(), -2, "\xff\xff\xff\xff\xff\xff\xff\xfe"},
		{"SharedCount", value.SharedCount(), 258, "\x00\x00\x01\x02"},
		{"SharedCount", value.SharedCount(), -1, "\xff\xff\xff\xff"},
		{"KazooCounter", value.KazooCounter(), -12, "-12"},
	} {
		data, err := c.codec.Encode(c.x)
		require.NoError(t, err)
		require.Equal(t, c.bytes, string(data), c.name)
		x, err := c.codec.Decode(data)
		require.NoError(t, err)
		require.Equal(t, c.x, x)
		x, err = c.codec.Decode(nil)
		require.NoError(t, err)
		require.Zero(t, x)
		_, err = c.codec.Decode([]byte("1.5"))
		require.Error(t, err, "%s: three bytes that are no integer", c.name)
	}
	_, err := value.SharedCount().Encode(1 << 31)
	require.ErrorContains(t, err, "four bytes")
	_, err = value.SharedCount().Encode(-1<<31 - 1)
	require.ErrorContains(t, err, "four bytes")
	_, err = value.JSON[func()]().Encode(func() {})
	require.Error(t, err)
	b := []byte("b")
	data, err := value.Bytes().Encode(b)
	require.NoError(t, err)
	b[0] = 'c'
	require.Equal(t, "b", string(data), "a copy")
}

// The value was never sent, so nothing about it is in doubt.
func TestSet_ContextEndsWhileAParentIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		v := text(t, srv, "a")
		srv.Intercept(zktest.Match{Op: zktest.OpCreateContainer}, zktest.HoldReply(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := v.Set(ctx, "1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
	})
}

// The root of a client made by Sub is a node like any other, and missing at first.
func TestRootOfASub(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		for _, at := range []string{"/app/config", "/app/count"} {
			below, err := c.Sub(at)
			require.NoError(t, err)
			if at == "/app/config" {
				v, err := value.New(below, "/", value.Text())
				require.NoError(t, err)
				_, err = v.Set(t.Context(), "x")
				require.NoError(t, err)
				got, _, err := v.Get(t.Context())
				require.NoError(t, err)
				require.Equal(t, "x", got)
				require.NoError(t, v.Delete(t.Context()))
				require.False(t, srv.Exists(at))
				continue
			}
			n, err := value.NewCounter(below, "/", value.AtomicLong())
			require.NoError(t, err)
			srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.DropReply())
			for want := range int64(3) {
				got, err := n.Add(t.Context(), 1)
				require.NoError(t, err)
				require.Equal(t, want+1, got)
			}
			require.NoError(t, c.Close())
			require.Empty(t, srv.Children(at), "the marker")
		}
	})
}
