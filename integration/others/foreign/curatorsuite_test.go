package foreign

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

const curatorTests = "curatortests-5.9.0"

// TestCuratorSuite runs Curator's tests; without FOREIGN=all, those of recipes that do not wait for seconds.
func TestCuratorSuite(t *testing.T) {
	needJava(t)
	release := fetched(t, curatorTests)
	jars := filepath.Join(release, "*")
	ours := compile(t, jars, "testdata/standin/StandIn.java", "testdata/standin/ZooKeeperServerEmbeddedAdapter.java")
	parts := curatorQuick
	if everything() {
		parts = curatorParts
		jars = compileTests(t, release, jars) + ":" + jars
	}
	test := func(t *testing.T, server, path string, env ...string) {
		for _, part := range parts {
			t.Run(part.name, func(t *testing.T) {
				r := junit(t, path, env, part.selected...)
				for range 2 { // as Curator's own build does, because its tests wait for fixed times
					r.again(t, curatorDeclared, func(failed []string) results { return junit(t, path, env, r.classes(failed)...) })
				}
				judge(t, server, r, curatorDeclared)
			})
		}
	}
	t.Run("zktest", func(t *testing.T) {
		test(t, "zktest", ours+":"+jars, "FOREIGN_STANDIN="+filepath.Join(standin(t, "standin"), "standin"),
			"FOREIGN_ENSEMBLES="+startEnsembles(t, "3.9.3"))
	})
	if everything() {
		t.Run("zookeeper", func(t *testing.T) { test(t, "zookeeper", jars) })
	}
}

// part is a share of a suite that runs in a separate process.
type part struct {
	name     string
	selected []string // for JUnit's launcher
}

var curatorParts = []part{
	recipes("atomic"), recipes("barriers"), recipes("cache"), recipes("leader"), recipes("locks"), recipes("nodes"),
	recipes("queue"), recipes("shared"), recipes("watch"),
	{"framework", []string{
		"--select-package=org.apache.curator.framework", "--exclude-package=org.apache.curator.framework.recipes",
		"--exclude-classname=.*(" + needFresh + ")",
	}},
	{"superuser", []string{"--select-package=org.apache.curator.framework.imps", "--include-classname=.*(" +
		needFresh + ")"}},
	{"client", []string{
		"--select-package=org.apache.curator", "--exclude-package=org.apache.curator.framework",
		"--exclude-package=org.apache.curator.x",
	}},
	{"async", []string{"--select-package=org.apache.curator.x.async"}},
	{"discovery", []string{"--select-package=org.apache.curator.x.discovery"}},
}

// needFresh are classes that set the super user of a server, which is read once when a class is loaded. They need a
// fresh process.
const needFresh = "TestReconfiguration|TestWatcherRemovalManager"

func recipes(name string) part {
	return part{name, []string{"--select-package=org.apache.curator.framework.recipes." + name}}
}

// curatorQuick are the tests that run without FOREIGN=all.
var curatorQuick = []part{{"recipes", []string{
	"--select-package=org.apache.curator.framework.recipes.atomic",
	"--select-class=org.apache.curator.framework.recipes.barriers.TestDistributedDoubleBarrier",
	"--select-class=org.apache.curator.framework.recipes.leader.TestLeaderSelectorParticipants",
	"--select-class=org.apache.curator.framework.recipes.leader.TestLeaderSelectorWithExecutor",
}}}

// curatorDeclared are the tests that may fail on zktest, each with the reason.
var curatorDeclared = map[string]string{
	"TestLeaderSelectorEdges.createProtectedNodeInBackgroundTest":        plugin,
	"TestLeaderSelectorEdges.createProtectedNodeInBackgroundTestNoRetry": plugin,
	"TestLeaderLatch.testNoServerAtStart": "it reads a counter that is raised only after " +
		"the latch that it waits for",
	"TestReconfiguration.testAdd":              early,
	"TestReconfiguration.testAddAndRemove":     early,
	"TestReconfiguration.testAddAsync":         early,
	"TestReconfiguration.testRemoveWithChroot": early,
	"TestLeaderSelectorEdges.flappingTest":     plugin,
}

// early is the reason why a test may fail on any server.
const early = "the latch that it waits for opens before the change, unless the ports of its servers are in order"

// compileTests compiles the tests of those modules for which Curator publishes no test jar.
func compileTests(t *testing.T, release, jars string) (classes string) {
	t.Helper()
	dir := t.TempDir()
	archive, err := filepath.Glob(filepath.Join(release, "*-source-release.zip"))
	if err != nil || len(archive) != 1 {
		t.Fatal("no sources in", release, err)
	}
	run(t, "unzip", "-q", archive[0], "*/src/test/java/*", "-d", dir)
	var sources []string
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".java") &&
			(strings.Contains(path, "/curator-x-async/") || strings.Contains(path, "/curator-x-discovery/")) {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, jars, sources...)
}

func compile(t *testing.T, jars string, sources ...string) (classes string) {
	t.Helper()
	classes = t.TempDir()
	run(t, "javac", append([]string{"-nowarn", "-cp", jars, "-d", classes}, sources...)...)
	return classes
}

func needJava(t *testing.T) {
	t.Helper()
	for _, program := range []string{"mvn", "javac"} {
		need.Program(t, program, "apt-get install maven default-jdk-headless")
	}
}

// fetched returns the directory of a release in the cache. Missing files are fetched, and verified against their
// checksums.
func fetched(t *testing.T, release string) string {
	t.Helper()
	run(t, "../../kit/versions/fetch.sh", release)
	dir, err := filepath.Abs(filepath.Join("../../kit/versions/cache", release))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// junit runs tests from a class path. The first arguments may be system properties, the others select the tests.
func junit(t *testing.T, path string, env []string, args ...string) results {
	t.Helper()
	reports := t.TempDir()
	flags := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.util.logging.config.file=" +
		os.DevNull, "-cp", path}
	for len(args) > 0 && strings.HasPrefix(args[0], "-D") {
		flags, args = append(flags, args[0]), args[1:]
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--include-classname") }) {
		args = append(args, "--include-classname=.*Test[^.]*")
	}
	args = append(append(flags, "org.junit.platform.console.ConsoleLauncher", "execute", "--details=none",
		"--disable-banner",
		"--reports-dir="+reports,
		"--config=junit.jupiter.execution.timeout.testable.method.default=240s"), args...)
	started := time.Now()
	out := suite(t, 40*time.Minute, t.TempDir(), env, "java", args...)
	r := readXML(t, reports)
	r.took = time.Since(started)
	if len(r.passed) == 0 {
		t.Logf("%s", tail(out))
	}
	return r
}
