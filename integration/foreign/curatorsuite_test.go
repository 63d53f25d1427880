package foreign

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// curatorJars fetches what Curator published, and what its tests need.
func curatorJars(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(cache(t, ""), "curator-5.9.0")
	if !exists(dir) {
		run(t, "", "mvn", "-B", "-q", "-f", "testdata/curator/pom.xml",
			"org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies", "-DoutputDirectory="+dir+".new")
		if err := os.Rename(dir+".new", dir); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "*")
}

// TestCuratorSuite runs tests of Curator's recipes; without FOREIGN=all those that do not wait for seconds.
func TestCuratorSuite(t *testing.T) {
	for _, program := range []string{"mvn", "javac"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program, "apt-get install maven default-jdk-headless")
		}
	}
	jars := curatorJars(t)
	ours := t.TempDir()
	run(t, "", "javac", "-nowarn", "-cp", jars, "-d", ours, "testdata/curator/ZooKeeperServerEmbeddedAdapter.java")
	test := func(t *testing.T, server, path string, selected []string, env ...string) {
		reports := t.TempDir()
		args := append([]string{
			"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "org.junit.platform.console.ConsoleLauncher",
			"execute", "--details=none", "--disable-banner", "--reports-dir=" + reports, "--include-classname=.*Test[^.]*",
			"--config=junit.jupiter.execution.timeout.testable.method.default=120s",
		}, selected...)
		started := time.Now()
		out := suite(t, 20*time.Minute, t.TempDir(), env, "java", args...)
		r := readXML(t, reports)
		r.took = time.Since(started)
		if len(r.passed) == 0 {
			t.Logf("%s", tail(out))
		}
		judge(t, server, r, nil)
	}
	parts := func(t *testing.T, server, path string, env ...string) {
		if !everything() {
			test(t, server, path, curatorQuick, env...)
			return
		}
		for _, part := range curatorParts {
			t.Run(part, func(t *testing.T) {
				test(t, server, path, []string{"--select-package=org.apache.curator.framework.recipes." + part}, env...)
			})
		}
	}
	t.Run("zktest", func(t *testing.T) {
		parts(t, "zktest", ours+":"+jars, "FOREIGN_STANDIN="+filepath.Join(standin(t, "standin"), "standin"),
			"FOREIGN_ENSEMBLES="+startEnsembles(t, "3.9.3"))
	})
	if everything() {
		t.Run("zookeeper", func(t *testing.T) { parts(t, "zookeeper", jars) })
	}
}

// curatorParts are packages of tests. Each runs in a process of its own.
var curatorParts = []string{"atomic", "barriers", "locks", "nodes", "shared", "watch"}

// curatorQuick are the tests that run without FOREIGN=all.
var curatorQuick = []string{
	"--select-package=org.apache.curator.framework.recipes.atomic",
	"--select-class=org.apache.curator.framework.recipes.barriers.TestDistributedDoubleBarrier",
}
