package zkserver_test

import (
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// A follower can keep serving a session that the leader has expired, which is why liveness is hard to prove. An
// isolated follower does not accept a client again, so the victim must not lose its connection. go-zookeeper abandons
// it after two thirds of the session timeout without a byte, so the timeout is the longest that a server grants.
func TestEnsemble_IsolatedFollowerServesAnExpiredSession(t *testing.T) {
	if !zkserver.Isolates(t) {
		t.Skip("isolation takes root and iptables: apt-get install iptables")
	}
	e := zkserver.StartEnsemble(t, 3, zkserver.WithOwnUsers(), zkserver.WithSyncLimit(80),
		zkserver.WithSessionTimeouts(0, 20*time.Second))
	follower, err := e.Follower()
	must(t, err)
	leader, err := e.Leader()
	must(t, err)
	victim, witness := connect(t, follower), connect(t, leader)
	_, err = victim.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	must(t, err)
	must(t, e.Isolate(follower))
	start := time.Now()
	for there := true; there; {
		if there, _, err = witness.Exists("/mine"); err != nil || time.Since(start) > time.Minute {
			t.Fatalf("still there %v after the cut: %v", time.Since(start), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("expired %v after the cut", time.Since(start))
	if there, _, err := victim.Exists("/mine"); err != nil || !there {
		t.Errorf("the follower does not serve its old state: %v, %v", there, err)
	}
}

func connect(t *testing.T, s *zkserver.Server) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect([]string{s.Addr()}, 20*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	must(t, err)
	t.Cleanup(c.Close)
	_, err = c.Sync("/")
	must(t, err)
	return c
}
