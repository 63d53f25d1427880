package zkprom_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zkprom"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The rules fire as docs/operations/alerts_test.yaml and jobs_test.yaml require.
func TestAlerts_FireAsTheirTestsSay(t *testing.T) {
	need.Asked(t, "promtool")
	promtool := need.Program(t, "promtool", "apt-get install prometheus")
	for _, args := range [][]string{
		{"check", "rules", "alerts.yaml"},
		{"test", "rules", "alerts_test.yaml", "jobs_test.yaml"},
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join("..", "docs", "operations")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
	}
}

// A process exports all metrics that the document, the rules and the dashboard name.
func TestOperations_MetricsAreExported(t *testing.T) {
	exported := map[string]bool{}
	inSite(t, func(s *site) { // with a process that has used a bit of everything
		s.lock("a")
		s.srv.Intercept(zktest.Match{Op: zktest.OpCreate, Times: 1}, zktest.Fail(zktest.CodeNoAuth))
		s.try(s.dial("b"), "/secure")
		s.cache("c")
		s.member("e", obey)
		client := s.dial("d")
		s.register(must(zkprom.Node("d", must(node.New(client, "/nodes/d", nil)))))
		members, views, err := zkprom.Group("nodes", must(group.New(client, "/nodes")).Watch(s.t.Context()))
		require.NoError(t, err)
		for range views { //nolint:errcheck // the view does not matter
			break // one is enough
		}
		s.register(members)
		time.Sleep(time.Second)
		for _, process := range s.processes {
			families, err := process.Gather()
			require.NoError(t, err)
			for _, family := range families {
				exported[family.GetName()] = true
			}
		}
	})
	documents, err := filepath.Glob("../docs/operations/*")
	require.NoError(t, err)
	suffix := regexp.MustCompile(`_(bucket|count|sum)$`)
	for _, document := range append(documents, "../docs/operations.md", "doc.go") {
		if filepath.Ext(document) == ".svg" || filepath.Base(document) == "jobs_test.yaml" {
			continue // a picture names no metrics, and those of jobs are exported by zkr
		}
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		named := regexp.MustCompile(`\bzkrecipes_\w+`).FindAllString(string(text), -1)
		require.NotEmpty(t, named, document)
		for _, name := range named {
			require.True(t, exported[suffix.ReplaceAllString(name, "")], "%s names %s, which is not exported", document, name)
		}
	}
}
