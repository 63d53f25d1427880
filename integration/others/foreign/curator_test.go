package foreign

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

func TestCurator(t *testing.T) {
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		need.Missing(t, "Curator"+" not found: "+err.Error())
	}
	if _, err := exec.LookPath("javac"); err != nil {
		need.Missing(t, "javac not found: apt-get install default-jdk-headless")
	}
	classes := t.TempDir()
	path := jars + ":" + classes
	run(t, "", "javac", "-nowarn", "-cp", path, "-d", classes, "testdata/CuratorRecipes.java")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			out := run(t, "", "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
				"-Djava.util.logging.config.file=/dev/null", "-cp", path, "CuratorRecipes", server.start(t))
			if !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
