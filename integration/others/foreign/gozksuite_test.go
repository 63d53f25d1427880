package foreign

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestGoZookeeperSuite runs the tests of go-zookeeper from the module cache.
func TestGoZookeeperSuite(t *testing.T) {
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(run(t, "go", "list", "-m", "-json", "github.com/go-zookeeper/zk")),
		&module); err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		t.Fatal(err)
	}
	// Servers from 3.8 on write their build date in a format that the client cannot parse, so the suite would never
	// find one ready. The edited function asks the same question, and only checks that there is an answer.
	edit(t, filepath.Join(source, "server_help_test.go"), "_, ok := FLWSrvr(serverAddrs, time.Second)", `ok := true
		for _, addr := range serverAddrs {
			answer, err := fourLetterWord(addr, "srvr", time.Second)
			ok = ok && err == nil && strings.Contains(string(answer), "Mode: ")
		}`)
	test := func(t *testing.T, server string, env ...string) {
		args := []string{"test", "-json", "-count=1", "-timeout=9m"}
		if !everything() {
			args = append(args, "-skip", gozkSlow)
		}
		started := time.Now()
		run := func(more ...string) results {
			return readGo(t, suite(t, 10*time.Minute, source, append(env, "GOWORK=off", "GOFLAGS=-mod=mod"), "go",
				append(args, more...)...))
		}
		r := run()
		// A test that stops a server and writes at once fails if the write precedes the client's detection of the
		// closed connection ("zk: connection closed"): 2 to 9 times in 60 on a busy machine.
		r.again(t, nil, func(failed []string) results {
			whole := slices.DeleteFunc(failed, func(name string) bool { return strings.Contains(name, "/") })
			return run("-run", "^("+strings.Join(whole, "|")+")$")
		})
		r.took = time.Since(started)
		judge(t, server, r, nil)
	}
	t.Run("zktest", func(t *testing.T) {
		test(t, "zktest", "ZOOKEEPER_BIN_PATH="+standin(t, "zkServer.sh"),
			"FOREIGN_ENSEMBLES="+startEnsembles(t, zktest.ReleaseDebian))
	})
	if !everything() {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		const programs = "/usr/share/zookeeper/bin"
		if !exists(programs) {
			need.Missing(t, programs+" not found: apt-get install zookeeper")
		}
		test(t, "zookeeper", "ZOOKEEPER_BIN_PATH="+programs)
	})
}

// gozkSlow are tests that wait for seconds, whatever the server does.
const gozkSlow = "NoQuorum|SlowServer|IfAuthdataSurvivesReconnect|_Children$|SetWatchers|MaxBufferSize|MultiLevelLock|" +
	"ExpiringWatch|_Auth$|BadSession|DeadlockInClose"
