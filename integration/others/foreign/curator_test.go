package foreign

import (
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

func TestCurator(t *testing.T) {
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		need.Missing(t, err.Error())
	}
	need.Program(t, "javac", "apt-get install default-jdk-headless")
	path := jars + ":" + compile(t, jars, "testdata/CuratorRecipes.java")
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
