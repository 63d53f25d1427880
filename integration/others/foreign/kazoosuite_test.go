package foreign

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const kazooVersion = "2.11.0"

// python finds an interpreter that has the modules. Debian's modules are found by Debian's python.
func python(t *testing.T, modules, install string) string {
	t.Helper()
	for _, candidate := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(candidate, "-c", "import "+modules).Run() == nil {
			return candidate
		}
	}
	need.Missing(t, modules+" not found: "+install)
	return ""
}

// kazooSource fetches and unpacks the published source of kazoo.
func kazooSource(t *testing.T, interpreter string) string {
	t.Helper()
	dir := cache(t, "kazoo")
	source := filepath.Join(dir, "kazoo-"+kazooVersion)
	archive := source + ".tar.gz"
	if !exists(archive) {
		run(t, interpreter, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "kazoo", "-d", dir,
			"--require-hashes", "-r", "testdata/kazoo.txt")
	}
	if !exists(source) {
		run(t, "tar", "-xzf", archive, "-C", dir)
	}
	return source
}

// TestKazooSuite runs kazoo's own tests; without FOREIGN=all, those of its recipes.
func TestKazooSuite(t *testing.T) {
	interpreter := python(t, "pytest, pytest_timeout, OpenSSL, jks, objgraph", "apt-get install python3-pytest"+
		" python3-pytest-timeout python3-openssl python3-pyjks python3-objgraph python3-pure-sasl python3-gevent python3-eventlet python3-pip")
	source := kazooSource(t, interpreter)
	selected := []string{
		"test_barrier.py", "test_election.py", "test_lease.py", "test_lock.py",
		"test_party.py", "test_queue.py",
	}
	if everything() {
		selected = []string{""}
	}
	pytest := func(t *testing.T, env []string, selected ...string) results {
		t.Helper()
		reports := t.TempDir()
		args := []string{
			"-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "log_cli=false", "--timeout=60",
			"--junitxml=" + filepath.Join(reports, "kazoo.xml"),
		}
		for _, name := range selected {
			args = append(args, "kazoo/tests/"+name)
		}
		env = append(env, "ZOOKEEPER_VERSION=3.8.0", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+source)
		started := time.Now()
		suite(t, 40*time.Minute, source, env, interpreter, args...)
		r := readXML(t, reports)
		r.took = time.Since(started)
		return r
	}
	run := func(t *testing.T, env []string) results {
		t.Helper()
		r := pytest(t, env, selected...)
		r.again(t, kazooDeclared, func(failed []string) results {
			var ids []string
			for _, name := range failed {
				ids = append(ids, nodeID(r.class[name], name))
			}
			return pytest(t, env, ids...)
		})
		return r
	}
	t.Run("zktest", func(t *testing.T) {
		env := []string{
			"PATH=" + standin(t, "java") + ":" + os.Getenv("PATH"), "ZOOKEEPER_CLASSPATH=none",
			"ZOOKEEPER_PORT_OFFSET=24000", "FOREIGN_ENSEMBLES=" + startEnsembles(t, zktest.ReleaseDebian),
		}
		judge(t, "zktest", run(t, env), kazooDeclared)
	})
	if !everything() {
		return
	}
	t.Run("zookeeper", func(t *testing.T) {
		jars, err := filepath.Glob("/usr/share/java/netty-*.jar") // zookeeper.jar does not name all of them
		jars = append(jars, "/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-nop.jar")
		if err != nil || !exists(jars...) {
			need.Missing(t, "ZooKeeper not found: apt-get install zookeeper default-jdk-headless libslf4j-java")
		}
		env := []string{
			"ZOOKEEPER_CLASSPATH=" + strings.Join(jars, ":"), "ZOOKEEPER_PORT_OFFSET=26000",
			"JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", // so that three servers start in time
		}
		judge(t, "zookeeper", run(t, env), kazooDeclared)
	})
}

// nodeID returns pytest's name for a test of a class such as kazoo.tests.test_lock.KazooLockTests.
func nodeID(class, name string) string {
	parts := strings.Split(class, ".")
	_, method, _ := strings.Cut(name, ".")
	return parts[2] + ".py::" + parts[3] + "::" + method
}

// kazooDeclared are the tests that may fail on zktest, each with the reason.
var kazooDeclared = map[string]string{
	"KazooLockTests.test_rw_lock": "it starts two threads and expects the first to be the first in the queue",
	"TestSSLClient.test_create":   "it gives the server a key store of Java, which the stand-in cannot read",
}
