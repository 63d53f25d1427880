package proxy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// The lost reply that recipes must survive: the client does not know the outcome, and the node exists.
func TestProxy_LosesTheReplyOfARealCreate(t *testing.T) {
	server := zkserver.Start(t)
	p := proxy.Start(t, server.Addr())
	through, direct := connect(t, p.Addr()), connect(t, server.Addr())
	if _, err := through.Create("/first", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	trap := p.Trap(proxy.Match{Ops: proxy.Creates}, proxy.DropReply)
	_, err := through.Create("/second", nil, 0, zk.WorldACL(zk.PermAll))
	if !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("create without its reply: %v", err)
	}
	wait(t, trap)
	if ok, _, err := direct.Exists("/second"); err != nil || !ok {
		t.Errorf("the server did not execute it: %v, %v", ok, err)
	}
}

func TestProxy_PartitionedClientIsExpiredByARealServer(t *testing.T) {
	server := zkserver.Start(t, zkserver.WithTickTime(200*time.Millisecond))
	p := proxy.Start(t, server.Addr())
	through, direct := connect(t, p.Addr()), connect(t, server.Addr())
	if _, err := through.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	p.Stall(proxy.Both)
	eventually(t, func() bool {
		ok, _, err := direct.Exists("/mine")
		return err == nil && !ok
	})
}

func connect(t *testing.T, addr string) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{addr}, 2*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
