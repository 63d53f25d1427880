//go:build unix

package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// serveShards makes the test itself a member until stop is called. Its functions run until finish is closed.
func serveShards(t *testing.T, srv *zktest.Server, id string, finish <-chan struct{},
	opts ...shard.Option,
) (all *shard.Shards, stop func()) {
	t.Helper()
	all, err := shard.New(dial(t, srv), "/app/parts", append(opts, shard.WithID(id), shard.WithSettle(0, 0))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		_ = all.Run(ctx, shard.List("p0", "p1", "p2"), func(ctx context.Context, _ *shard.Shard) error {
			<-ctx.Done()
			<-finish
			return nil
		})
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return all, stop
}

// TestStatus_Shards: while a shard moves, status shows its old and new owner.
func TestStatus_Shards(t *testing.T) {
	srv := zktest.Run(t)
	finish := make(chan struct{})
	over := sync.OnceFunc(func() { close(finish) })
	defer over() // the members end after it
	first, _ := serveShards(t, srv, "first", finish, shard.WithWeight(2))
	becomes := func(verdict, path string, flags ...string) (out string) {
		t.Helper()
		eventually(t, verdict, func() bool {
			_, out, _ = run(t, srv.Addr(), append([]string{"status", "-o=value", path}, flags...)...)
			return strings.TrimPrefix(out, "/app/parts\t") == verdict+"\n"
		})
		_, out, _ = run(t, srv.Addr(), append([]string{"status", path}, flags...)...)
		return out
	}
	out := becomes("owned", "/app/parts")
	assert.Regexp(t, `(?s)^/app/parts: 3 shards, 1 members, 3 owned\n`+
		`  SHARD  STATE  MEMBER  HOLDER  AGE\s+SINCE\s+TOKEN\n  p0     owned  first   first   \S+\s+\S+Z\s+\d+\n.*`+
		`  MEMBER  WEIGHT  SHARDS  AGE\s+SINCE\s+SAYS\n  first   2       3       \S+\s+\S+Z\s+-\n$`, out)

	second, stop := serveShards(t, srv, "second", finish)
	out = becomes("moving", "/app/parts")
	assert.Regexp(t, `  p\d     moving  second  first `, out, "the function of the first member goes on")
	assert.Contains(t, out, "2 owned")
	require.Regexp(t, `^PATH .*\n/app/parts  shards  moving   -  .*3 shards, 2 members, .*2 owned\n$`,
		becomes("moving", "/", "-r"),
		"with -r, it stands for its queues")

	text, _ := ends(t, 0, srv.Addr(), "status", "-o=json", "/app/parts")
	var view snapshot
	require.NoError(t, json.Unmarshal([]byte(text), &view))
	require.Empty(t, view.Queues)
	require.Len(t, view.Shards[0].Members, 2)
	require.Len(t, view.Shards[0].Shards, 3)
	now, err := second.Owners(t.Context())
	require.NoError(t, err)
	for i, s := range view.Shards[0].Shards {
		assert.Equal(t, int64(now.Shards[i].Holder.Token), s.Token)
		assert.Equal(t, now.Shards[i].Member, s.Member)
		assert.Equal(t, "first", s.Holder)
	}

	over()
	becomes("owned", "/app/parts")
	stop()
	becomes("owned", "/app/parts")
	require.NoError(t, first.Leave(t.Context()))
	assert.Contains(t, becomes("nobody", "/app/parts"), "3 shards, 0 members, 3 nobody")
}

// TestPage_Shards: shards are one row, whose holders change with them. Changes of their locks are still reported.
func TestPage_Shards(t *testing.T) {
	srv := zktest.Run(t)
	finish := make(chan struct{})
	close(finish)
	client, _ := sidecarClient(t, srv.Addr(), "--ui-root=/app")
	events := eventsOf(t, client, "/ui/events")
	nextEvent(t, events, `"current":true`)
	first, _ := serveShards(t, srv, "first", finish)
	nextEvent(t, events, `"kind":"shards","verdict":"owned","words":"3 shards, 1 members, 3 owned"`, `"holder":"first"`)
	events = eventsOf(t, client, "/ui/events")
	fresh := nextEvent(t, events, `"current":true`, `"kind":"shards"`)
	require.NotContains(t, fresh, `"path":"/app/parts/own/p0","kind"`, "it has a line in the table")
	const change = `"path":"/app/parts/own/p0","words":"free → first"`
	if !strings.Contains(fresh, change) { // the table may be ahead of the changes
		nextEvent(t, events, change)
	}
	require.NoError(t, first.Leave(t.Context()))
	nextEvent(t, events, `"kind":"shards","verdict":"nobody"`)
	nodes(t, srv, "web/1", "/app/parts/own/p0/lock-0000000001")
	nextEvent(t, events, `"path":"/app/parts/own/p0","kind":"mutex","layout":"curator","verdict":"ghost"`)
}

// TestStatus_ShardsSomethingInTheWay: with -r, the lock of a shard is listed if the view of the shards does not cover
// it.
func TestStatus_ShardsSomethingInTheWay(t *testing.T) {
	srv := zktest.Run(t)
	nodes(t, srv, "", "/s", "/s/members", "/s/election", "/s/own", "/s/own/p0")
	nodes(t, srv, `{"owners":{"w1":["p0"]},"away":{"w1":1000}}`, "/s/plan")
	_, out, _ := run(t, srv.Addr(), "status", "/s")
	require.Equal(t, "/s: 1 shards, 0 members, 1 away\n  SHARD  STATE  MEMBER  HOLDER  AGE  SINCE  TOKEN\n  p0     "+
		"away   w1      -       -    -      -\n", out)
	nodes(t, srv, "web/1", "/s/own/p0/lock-0000000001")
	_, out, _ = run(t, srv.Addr(), "status", "-r", "-o=value", "/")
	require.Equal(t, "/s/own/p0\tghost\n/s\tmoving\n", out)
	asked := srv.Intercept(zktest.Match{Times: -1, Where: func(r zktest.Request) bool {
		return r.Op != zktest.OpConnect && r.Op != zktest.OpPing && r.Op != zktest.OpCloseSession
	}}, zktest.Proceed())
	var view snapshot
	_, out, _ = run(t, srv.Addr(), "status", "-r", "-o=json", "/")
	require.NoError(t, json.Unmarshal([]byte(out), &view))
	require.EqualValues(t, asked.Hits(), view.Requests, "the reads of the shards are among them")
	require.NoError(t, srv.Set("/s/plan", []byte("?")))
	_, out, _ = run(t, srv.Addr(), "status", "/s")
	require.Regexp(t, `^/s: 0 shards, 0 members, cannot read the plan: `, out)
}
