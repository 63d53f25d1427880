package txnlog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/chaos/txnlog"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A leader is killed in between, and a follower that was away catches up. The logs together have each change once.
func TestRead(t *testing.T) {
	e := zkserver.StartEnsemble(t, 3)
	if !e.Servers[0].Ours() {
		t.Skip("the logs of servers that are not ours are out of reach")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dial := func() *conn.Client {
		c, err := conn.Dial(ctx, e.Addr(), conn.WithSessionTimeout(5*time.Second))
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		return c
	}
	c, leaving := dial(), dial()
	ask := func(ops ...zkrecipes.Op) {
		t.Helper()
		_, err := c.Multi(ctx, ops...)
		must(t, err)
	}
	acl := zk.WorldACL(zk.PermAll)
	follower, err := e.Follower()
	must(t, err)
	must(t, follower.Kill())
	must(t, c.CreateAll(ctx, "/a/b", []byte("1")))
	must(t, c.CreateAll(ctx, "/other", nil))
	ask(zkrecipes.OpSet("/a/b", []byte("2"), 0),
		zkrecipes.OpCreate("/a/c", []byte("3"), zk.FlagEphemeral, acl...))
	if _, err := c.Multi(ctx, zkrecipes.OpSet("/a/b", nil, -1), zkrecipes.OpCheck("/a/b", 0)); err == nil {
		t.Error("the version is not 0")
	}
	must(t, follower.Restart())
	leader, err := e.Leader()
	must(t, err)
	must(t, leader.Kill())
	must(t, leader.Restart())
	must(t, e.WaitReady())
	_, err = leaving.Create(ctx, "/a/d", []byte("4"), zk.FlagEphemeral)
	must(t, err)
	s, err := leaving.Session(ctx)
	must(t, err)
	must(t, leaving.Close())
	must(t, c.Delete(ctx, "/a/b", -1))
	_, err = c.Create(ctx, "/a/b", nil, 0)
	must(t, err)
	_, stat, err := c.Exists(ctx, "/a/b")
	must(t, err)
	mine, err := c.Session(ctx)
	must(t, err)

	var dirs []string
	for _, s := range e.Servers {
		dirs = append(dirs, s.Data())
	}
	history, unknown, err := txnlog.Read("/a", dirs...)
	must(t, err)
	var got []string
	for i, txn := range history {
		if i > 0 && txn.Zxid <= history[i-1].Zxid {
			t.Errorf("%#x after %#x", txn.Zxid, history[i-1].Zxid)
		}
		if age := time.Since(time.UnixMilli(txn.Time)); age < 0 || age > time.Minute {
			t.Errorf("%+v was %v ago", txn, age)
		}
		for _, c := range txn.Changes {
			owner := map[int64]string{0: "", mine.ID(): " ours", s.ID(): " theirs"}[c.Owner]
			got = append(got, fmt.Sprintf("%v %s %s%s", c.Kind, c.Path, c.Data, owner))
		}
	}
	want := []string{
		"create /a/b 1", "set /a/b 2", "create /a/c 3 ours", "create /a/d 4 theirs", "delete /a/d ",
		"delete /a/b ", "create /a/b ",
	}
	if !slices.Equal(got, want) || unknown != 0 {
		t.Errorf("%d unknown,\n%q, want\n%q", unknown, got, want)
	}
	if last := history[len(history)-1].Zxid; last != stat.Czxid {
		t.Errorf("the last is %#x, and the node has %#x", last, stat.Czxid)
	}
}
