package record

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/bubble"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const path = "/app/record"

func at(czxid int64, version int32, data string) session.Node {
	return session.Node{Exists: true, Data: []byte(data), Stat: zk.Stat{Czxid: czxid, Version: version}}
}

// TestReplacement_Fate: what a reading tells of copies whose replies were lost.
func TestReplacement_Fate(t *testing.T) {
	missing := session.Node{}
	for name, tt := range map[string]struct {
		over, now  session.Node
		idempotent bool
		want       fate
	}{
		"not applied yet":                        {at(1, 4, "old"), at(1, 4, "old"), false, open},
		"not applied yet, the data are the same": {at(1, 4, "new"), at(1, 4, "new"), true, open},
		"another client wrote":                   {at(1, 4, "old"), at(1, 5, "other"), false, refused},
		"one write, with our data":               {at(1, 4, "old"), at(1, 5, "new"), false, unknown},
		"the same, which is as good":             {at(1, 4, "old"), at(1, 5, "new"), true, applied},
		"two writes, one may be ours":            {at(1, 4, "old"), at(1, 6, "other"), false, unknown},
		"made again, in the same version":        {at(1, 4, "old"), at(2, 4, "old"), false, unknown},
		"made again, with our data":              {at(1, 4, "old"), at(2, 1, "new"), true, applied},
		"deleted":                                {at(1, 4, "old"), missing, true, unknown},
		"still missing: made and deleted?":       {missing, missing, true, unknown},
		"made, by us or another":                 {missing, at(1, 1, "new"), false, unknown},
		"made, with other data":                  {missing, at(1, 1, "other"), false, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := write{over: tt.over, data: []byte("new"), doubt: zkrecipes.ErrUnknownOutcome}
			require.Equal(t, tt.want, Replacement{Idempotent: tt.idempotent}.fate(&w, tt.now))
		})
	}
}

func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server, c *session.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		f(t, srv, (*session.Client)(bubble.Dial(t, srv, "a")))
	})
}

// TestMarked_OnceAtEveryFault: a request or a reply is lost, at every place, once and again. Each update is applied once.
func TestMarked_OnceAtEveryFault(t *testing.T) {
	for name, action := range map[string]zktest.Action{"not applied": zktest.DropRequest(), "applied": zktest.DropReply()} {
		for skip := range 8 {
			for _, times := range []int{1, 2} {
				t.Run(fmt.Sprint(name, skip, times), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server, c *session.Client) {
						m := NewMarked(c, path, []byte("x"))
						srv.Intercept(zktest.Match{Skip: skip, Times: times}, action)
						for _, want := range []string{"xx", "xxx"} {
							data, err := m.Update(t.Context(), func(data []byte) ([]byte, error) { return append(data, 'x'), nil })
							require.NoError(t, err)
							require.Equal(t, want, string(data))
						}
						require.NoError(t, m.Close(t.Context()))
						require.Empty(t, srv.Children(path), "the marker")
						node, _ := srv.Node(path)
						require.Equal(t, "xxx", string(node.Data))
					})
				})
			}
		}
	}
}

// TestMarked_ErrorAboutOldData: what the last update left may be old. An error about it counts only if the node still holds it.
func TestMarked_ErrorAboutOldData(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *session.Client) {
		m := NewMarked(c, path, []byte("old"))
		same := func(data []byte) ([]byte, error) { return data, nil }
		_, err := m.Update(t.Context(), same)
		require.NoError(t, err)
		_, err = c.Set(t.Context(), path, []byte("new"), -1)
		require.NoError(t, err)
		var seen []string
		bad := errors.New("bad")
		_, err = m.Update(t.Context(), func(data []byte) ([]byte, error) {
			seen = append(seen, string(data))
			return nil, bad
		})
		require.ErrorIs(t, err, bad)
		require.Equal(t, []string{"old", "new"}, seen)
	})
}

// TestReplacement_ReplyLost: the write is found again, or its outcome is said to be unknown.
func TestReplacement_ReplyLost(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		inBubble(t, func(t *testing.T, srv *zktest.Server, c *session.Client) {
			require.NoError(t, c.CreateAll(t.Context(), path, []byte("old")))
			srv.Intercept(zktest.Match{Op: zktest.OpMulti}, zktest.DropReply())
			now, err := Replacement{
				Client: c, Path: path, Idempotent: idempotent,
				Next: func(session.Node) ([]byte, error) { return []byte("new"), nil },
			}.Do(t.Context())
			node, _ := srv.Node(path)
			require.Equal(t, "new", string(node.Data))
			if idempotent {
				require.NoError(t, err)
				require.Equal(t, node.Stat.Mzxid, now.Stat.Mzxid)
			} else {
				require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
			}
		})
	}
}

// TestMarked_Close_CallerGone: the turn is another's, and the call returns with its context.
func TestMarked_Close_CallerGone(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *zktest.Server, c *session.Client) {
		m := NewMarked(c, path, nil)
		unlock, err := m.lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, m.Close(ctx), context.Canceled)
		unlock()
		require.NoError(t, m.Close(t.Context()))
	})
}
