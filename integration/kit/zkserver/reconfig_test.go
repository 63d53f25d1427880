package zkserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// Three servers are replaced one by one, the leader last. In the end the configuration names the other three, and a
// client of theirs finds what was written before.
func TestEnsemble_ServersReplaced(t *testing.T) {
	e := zkserver.StartEnsemble(t, 3, zkserver.WithReconfig())
	before := connect(t, e.Addr(), 10*time.Second)
	_, err := before.Create("/x", nil, 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	for _, old := range e.Servers {
		_, err := e.Join()
		must(t, err)
		must(t, e.Leave(old))
		must(t, old.Stop())
	}
	for _, s := range e.Servers[3:] {
		c := connect(t, s.Addr(), 10*time.Second)
		config, _, err := c.Get("/zookeeper/config")
		must(t, err)
		if lines := strings.Split(string(config), "\n"); len(lines) != 4 {
			t.Errorf("%q: want three servers and a version", lines)
		}
		for _, other := range e.Servers[3:] {
			if !strings.Contains(string(config), ":participant;"+other.Addr()+"\n") {
				t.Errorf("%s is no member:\n%s", other.Addr(), config)
			}
		}
		if there, _, err := c.Exists("/x"); err != nil || !there {
			t.Errorf("%s: %v, %v", s.Addr(), there, err)
		}
		must(t, s.Restart())
	}
	must(t, e.WaitReady())
}
