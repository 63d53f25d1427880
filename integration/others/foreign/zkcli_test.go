package foreign

import (
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const zkCli = "/usr/share/zookeeper/bin/zkCli.sh"

// TestShell runs ZooKeeper's own shell, and reads what it prints, in this order.
func TestShell(t *testing.T) {
	if !exists(zkCli) {
		need.Missing(t, zkCli+" not found: apt-get install zookeeper")
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			out := run(t, strings.Join(shellCommands, "\n")+"\n", zkCli, "-server", server.start(t))
			rest := out
			for _, want := range shellAnswers {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q in its place in:\n%s", want, out)
				}
				rest = after
			}
			for _, event := range shellEvents { // a separate thread prints them, between the answers
				if !strings.Contains(out, event) {
					t.Errorf("no %q in:\n%s", event, out)
				}
			}
		})
	}
}

var shellCommands = []string{
	"create /app hello",
	"get -s /app",
	"set -s /app world",
	"get /app",
	"create -s /app/n-",
	"create -s -e /app/n-",
	"create -c /app/box",
	"ls -s /app",
	"ls -R /app",
	"getEphemerals /app",
	"getAllChildrenNumber /app",
	"stat /app/box",
	"get -w /app",
	"set /app again",
	"addWatch -m PERSISTENT_RECURSIVE /app",
	"create /app/box/child x",
	"removewatches /app",
	"addauth digest u:p",
	"whoami",
	"create /app/secret s auth::cdrwa",
	"getAcl /app/secret",
	"setAcl /app/secret world:anyone:r",
	"getAcl -s /app/secret",
	"sync /app",
	"delete -v 7 /app/box/child",
	"delete /app/box",
	"create /app hello",
	"get /nope",
	"deleteall /app",
	"ls /",
	"version",
	"quit",
}

var shellAnswers = []string{
	"Created /app",
	"hello", "cZxid = 0x", "dataVersion = 0", "dataLength = 5",
	"dataVersion = 1",
	"world",
	"Created /app/n-0000000000",
	"Created /app/n-0000000001",
	"Created /app/box",
	"[box, n-0000000000, n-0000000001]", "cversion = 3", "numChildren = 3",
	"/app\n/app/box\n/app/n-0000000000\n/app/n-0000000001",
	"[/app/n-0000000001]",
	"3",
	"ephemeralOwner = 0x0",
	"world",
	"Created /app/box/child",
	"digest: u\n",
	"Created /app/secret",
	"'digest,'u:", ": cdrwa",
	"'world,'anyone", ": r", "aclVersion = 1",
	"Sync is OK",
	"version No is not valid : /app/box/child",
	"Node not empty: /app/box",
	"Node already exists: /app",
	"Node does not exist: /nope",
	"[zookeeper]",
}

var shellEvents = []string{
	"type:NodeDataChanged path:/app",
	"type:NodeCreated path:/app/box/child",
	"type:PersistentWatchRemoved path:/app",
}
