package foreign

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// TestNPMSuite runs the tests of the npm package zookeeper that need a server, with FOREIGN=all because compiling
// ZooKeeper's C client, which the package contains, takes a minute.
func TestNPMSuite(t *testing.T) {
	if !everything() {
		t.Skip("FOREIGN=all runs it")
	}
	for _, program := range []string{"npm", "node", "make", "g++"} {
		need.Program(t, program, "apt-get install npm make g++")
	}
	project := cache(t, "npm-7.3.0")
	source := filepath.Join(project, "node_modules/zookeeper")
	if !exists(filepath.Join(source, "build/zookeeper.node")) {
		for _, file := range []string{"package.json", "package-lock.json"} {
			copyTo(t, project, filepath.Join("testdata/npm", file))
		}
		run(t, "npm", "--prefix", project, "ci", "--foreground-scripts")
	}
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			started := time.Now()
			r := readTAP(suite(t, 10*time.Minute, source, nil, filepath.Join(project, "node_modules/.bin/ava"),
				"--tap", "tests/integration/*.js", "--", server.start(t)))
			r.took = time.Since(started)
			judge(t, server.name, r, nil)
		})
	}
}

// readTAP parses the output of ava: "ok 1 - file › name".
func readTAP(out []byte) (r results) {
	for line := range strings.Lines(string(out)) {
		head, name, _ := strings.Cut(strings.TrimSpace(line), " - ")
		switch {
		case strings.HasPrefix(head, "not ok "):
			r.add(name, "fail")
		case strings.HasPrefix(head, "ok "):
			r.add(name, "pass")
		}
	}
	return r
}
