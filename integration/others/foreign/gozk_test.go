package foreign

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// The tests in this file make every call of go-zookeeper's client.

var open = zk.WorldACL(zk.PermAll)

func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	if c.State() != zk.StateHasSession || c.SessionID() == 0 || c.Server() != addr {
		t.Fatalf("state %v, session %x, server %s", c.State(), c.SessionID(), c.Server())
	}
	return c
}

func TestGoZookeeper_Nodes(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			c := connect(t, server.start(t))
			path, err := c.Create("/n", []byte("1"), 0, open)
			equal(t, "create", path, "/n", err)
			data, stat, err := c.Get("/n")
			equal(t, "get", string(data), "1", err)
			equal(t, "czxid = mzxid", stat.Czxid, stat.Mzxid, nil)
			stat, err = c.Set("/n", []byte("22"), 0)
			equal(t, "set", stat.Version, 1, err)
			_, err = c.Create("/n/a", nil, 0, open)
			must(t, err)
			names, stat, err := c.Children("/n")
			equal(t, "children", strings.Join(names, ","), "a", err)
			equal(t, "numChildren", stat.NumChildren, 1, nil)
			ok, stat, err := c.Exists("/n")
			equal(t, "exists", ok, true, err)
			equal(t, "cversion", stat.Cversion, 1, nil)
			ok, _, err = c.Exists("/none")
			equal(t, "exists", ok, false, err)
			path, err = c.Sync("/n")
			equal(t, "sync", path, "/n", err)
			must(t, c.Delete("/n/a", -1))
			must(t, c.Delete("/n", 1))
		})
	}
}

func TestGoZookeeper_Creates(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			c := connect(t, addr)
			_, err := c.Create("/c", nil, 0, open)
			must(t, err)
			for _, x := range []struct {
				flags int32
				want  string
			}{
				{zk.FlagEphemeral, "/c/a-"},
				{zk.FlagSequence, "/c/a-0000000001"},
				{zk.FlagEphemeral | zk.FlagSequence, "/c/a-0000000002"},
			} {
				path, err := c.Create("/c/a-", nil, x.flags, open)
				equal(t, "create", path, x.want, err)
			}
			_, stat, err := c.Get("/c/a-0000000002")
			equal(t, "owner", stat.EphemeralOwner, c.SessionID(), err)
			path, err := c.CreateProtectedEphemeralSequential("/c/lock-", nil, open)
			must(t, err)
			if !strings.HasPrefix(path, "/c/_c_") || !strings.HasSuffix(path, "lock-0000000003") {
				t.Errorf("protected node %s", path)
			}
			path, err = c.CreateContainer("/c/box", []byte("x"), zk.FlagContainer, open)
			equal(t, "container", path, "/c/box", err)
			path, err = c.CreateTTL("/c/ttl", nil, zk.FlagTTL, open, time.Hour)
			equal(t, "ttl", path, "/c/ttl", err)

			other := connect(t, addr)
			_, err = other.Create("/c/other", nil, zk.FlagEphemeral, open)
			must(t, err)
			other.Close() // ends the session
			_, _, gone, err := c.ExistsW("/c/other")
			must(t, err)
			if ok, _, err := c.Exists("/c/other"); err != nil || ok {
				expect(t, gone, zk.EventNodeDeleted, "/c/other")
			}
		})
	}
}

func TestGoZookeeper_Watches(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			c := connect(t, addr)
			other := connect(t, addr)
			_, err := c.Create("/w", nil, 0, open)
			must(t, err)
			ok, _, created, err := c.ExistsW("/w/a")
			equal(t, "exists", ok, false, err)
			_, _, children, err := c.ChildrenW("/w")
			must(t, err)
			_, err = other.Create("/w/a", nil, 0, open)
			must(t, err)
			expect(t, created, zk.EventNodeCreated, "/w/a")
			expect(t, children, zk.EventNodeChildrenChanged, "/w")
			_, _, changed, err := c.GetW("/w/a")
			must(t, err)
			_, err = other.Set("/w/a", nil, -1)
			must(t, err)
			expect(t, changed, zk.EventNodeDataChanged, "/w/a")
			_, _, deleted, err := c.GetW("/w/a")
			must(t, err)
			must(t, other.Delete("/w/a", -1))
			expect(t, deleted, zk.EventNodeDeleted, "/w/a")
		})
	}
}

func TestGoZookeeper_ACL(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			c := connect(t, addr)
			must(t, c.AddAuth("digest", []byte("u:p")))
			_, err := c.Create("/acl", nil, 0, zk.AuthACL(zk.PermAll))
			must(t, err)
			list, _, err := c.GetACL("/acl")
			equal(t, "acl", len(list), 1, err)
			equal(t, "id", list[0], zk.DigestACL(zk.PermAll, "u", "p")[0], nil)
			other := connect(t, addr)
			_, _, err = other.Get("/acl")
			fails(t, err, zk.ErrNoAuth)
			stat, err := c.SetACL("/acl", zk.WorldACL(zk.PermRead), 0)
			equal(t, "aversion", stat.Aversion, 1, err)
			_, _, err = other.Get("/acl")
			must(t, err)
			_, err = other.Create("/acl2", nil, 0, nil)
			fails(t, err, zk.ErrInvalidACL)
		})
	}
}

func TestGoZookeeper_Multi(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			c := connect(t, server.start(t))
			_, err := c.Create("/m", nil, 0, open)
			must(t, err)
			results, err := c.Multi(
				&zk.CreateRequest{Path: "/m/a", Data: []byte("1"), Acl: open},
				&zk.CreateRequest{Path: "/m/s-", Acl: open, Flags: zk.FlagSequence},
				&zk.SetDataRequest{Path: "/m/a", Data: []byte("2"), Version: 0},
				&zk.CheckVersionRequest{Path: "/m/a", Version: 1},
				&zk.DeleteRequest{Path: "/m/a", Version: 1},
			)
			equal(t, "results", len(results), 5, err)
			equal(t, "name", results[1].String, "/m/s-0000000001", results[1].Error)
			equal(t, "version", results[2].Stat.Version, 1, results[2].Error)
			results, err = c.Multi(
				&zk.CreateRequest{Path: "/m/b", Acl: open},
				&zk.CheckVersionRequest{Path: "/m", Version: 9},
			)
			fails(t, err, zk.ErrBadVersion)
			equal(t, "results", len(results), 2, nil)
			fails(t, results[1].Error, zk.ErrBadVersion)
			ok, _, err := c.Exists("/m/b")
			equal(t, "rolled back", ok, false, err)
			_, err = c.Multi()
			must(t, err)
		})
	}
}

func TestGoZookeeper_Errors(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			c := connect(t, server.start(t))
			_, err := c.Create("/e", nil, 0, open)
			must(t, err)
			_, err = c.Create("/e", nil, 0, open)
			fails(t, err, zk.ErrNodeExists)
			_, err = c.Create("/e/a/b", nil, 0, open)
			fails(t, err, zk.ErrNoNode)
			_, err = c.Create("/e/eph", nil, zk.FlagEphemeral, open)
			must(t, err)
			_, err = c.Create("/e/eph/a", nil, 0, open)
			fails(t, err, zk.ErrNoChildrenForEphemerals)
			fails(t, c.Delete("/e", -1), zk.ErrNotEmpty)
			fails(t, c.Delete("/e/none", -1), zk.ErrNoNode)
			fails(t, c.Delete("/e/eph", 3), zk.ErrBadVersion)
			_, err = c.Set("/e", nil, 3)
			fails(t, err, zk.ErrBadVersion)
			_, err = c.IncrementalReconfig([]string{"server.9=127.0.0.1:1:2;3"}, nil, -1)
			fails(t, err, zk.ErrReconfigDisabled)
			_, err = c.Reconfig([]string{"server.9=127.0.0.1:1:2;3"}, -1)
			fails(t, err, zk.ErrReconfigDisabled)
		})
	}
}

// words sends only ruok. go-zookeeper cannot parse the answers of Debian's 3.8.0 to srvr and cons.
func TestGoZookeeper_Words(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			if !slices.Equal(zk.FLWRuok([]string{addr}, time.Second), []bool{true}) {
				t.Error("ruok is not answered")
			}
		})
	}
}

func TestGoZookeeper_Lock(t *testing.T) {
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			var inside sync.Mutex
			var all sync.WaitGroup
			for range 4 {
				c := connect(t, addr)
				all.Go(func() {
					l := zk.NewLock(c, "/lock", open)
					for range 5 {
						must(t, l.LockWithData([]byte("x")))
						if !inside.TryLock() {
							t.Error("two hold the lock")
							return
						}
						inside.Unlock()
						must(t, l.Unlock())
					}
				})
			}
			all.Wait()
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func fails(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: got %v, %v; want %v", what, got, err, want)
	}
}

func expect(t *testing.T, events <-chan zk.Event, kind zk.EventType, path string) {
	t.Helper()
	select {
	case e := <-events:
		if e.Type != kind || e.Path != path || e.Err != nil {
			t.Errorf("got %+v, want %v of %s", e, kind, path)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("no %v of %s", kind, path)
	}
}
