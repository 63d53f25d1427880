package foreign

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCurator(t *testing.T) {
	const install = "apt-get install libcurator-recipes-java default-jdk-headless"
	var jars []string
	for _, jar := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "slf4j-nop"} {
		jars = append(jars, filepath.Join("/usr/share/java", jar+".jar"))
	}
	if !exists(jars...) {
		missing(t, "Curator", install)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		missing(t, "javac", install)
	}
	classes := t.TempDir()
	path := strings.Join(append(jars, classes), ":")
	run(t, "", "javac", "-nowarn", "-cp", path, "-d", classes, "testdata/CuratorRecipes.java")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			out := run(t, "", "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path, "CuratorRecipes", server.start(t))
			if !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
		})
	}
}
