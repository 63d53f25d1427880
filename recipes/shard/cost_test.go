package shard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestCost counts the requests, watches and nodes that doc.go promises for members and shards.
func TestCost(t *testing.T) {
	inFleet(t, 100, func(f *fleet) {
		f.join("a")
		f.join("b")
		f.requireServed(2*settle, map[string]int{"a": 50, "b": 50})
		f.pass(time.Minute)
		watches, _ := f.srv.Watches()
		nodes := len(f.srv.Tree(path))
		// A member watches its own node, the plan and, in the election, its own candidate or the one ahead of it. The
		// second candidate watches both. The leader watches the list of members, and each of them.
		require.Equal(f, 2*3+1+(1+1)+100, watches, "one for each shard, three for each member")
		require.Equal(f, 3+2*2+2*100+2, nodes, "two for each shard: the lock and its holder")

		all, c := bubble.Requests(f.srv), f.join("c")
		f.requireServed(2*settle, map[string]int{"a": 34, "b": 33, "c": 33})
		f.pass(time.Second)
		t.Logf("a third member takes 33 of 100 shards: %d requests", all.Hits())
		require.Less(f, all.Hits(), 33*8+60,
			"a waiter that is told of the release asks no more, one that came too late for that looks")
		all.Remove()

		quiet := map[string]int{}
		count := f.srv.Intercept(zktest.Match{Times: -1, Where: func(r zktest.Request) bool {
			quiet[strings.TrimSuffix(r.Op.String(), "2")]++
			return true
		}}, zktest.Proceed())
		f.pass(time.Minute)
		count.Remove()
		t.Logf("three members in quiet: %v in a minute", quiet)
		require.Less(f, quiet["getData"], 3*(100+20), "a look at each watch every two to three session timeouts")
		require.Less(f, quiet["sync"], 3*70, "what sessions need")
		c.stop()
	})
}
