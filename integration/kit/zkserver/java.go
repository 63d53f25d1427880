package zkserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
)

// classPath finds the jars of a release; see WithRelease. If the caller requests no release, ZOOKEEPER_HOME takes
// precedence.
func classPath(release string) (string, error) {
	if _, err := exec.LookPath(javaCommand("java")); err != nil {
		return "", fmt.Errorf("java is %w: %w", versions.ErrNotInstalled, err)
	}
	home := os.Getenv("ZOOKEEPER_HOME")
	if home == "" || release != "" {
		return versions.ZooKeeper.ClassPath(release)
	}
	jars, err := filepath.Glob(filepath.Join(home, "lib", "zookeeper-*.jar"))
	if err != nil || len(jars) == 0 {
		return "", fmt.Errorf("ZOOKEEPER_HOME=%s has no lib/zookeeper-*.jar: ZooKeeper is %w", home, versions.ErrNotInstalled)
	}
	return filepath.Join(home, "conf") + ":" + filepath.Join(home, "lib", "*"), nil
}

// javaCommand returns a program in JAVA_HOME or, if that is not set, in PATH.
func javaCommand(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", name)
	}
	return name
}
