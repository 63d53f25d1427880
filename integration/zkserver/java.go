package zkserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled says how to get a ZooKeeper.
var ErrNotInstalled = errors.New(
	"no ZooKeeper found: apt-get install zookeeper default-jdk-headless, or set ZOOKEEPER_HOME or ZKRECIPES_SERVERS")

// debian is where Debian keeps its jars; zookeeper.jar names those it needs in its manifest, except a logger.
const debian = "/usr/share/java"

// classPath finds ZooKeeper's jars: ZOOKEEPER_HOME before Debian's.
func classPath() (string, error) {
	if _, err := exec.LookPath(javaCommand("java")); err != nil {
		return "", fmt.Errorf("%w (java: %w)", ErrNotInstalled, err)
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		jars, err := filepath.Glob(filepath.Join(home, "lib", "zookeeper-*.jar"))
		if err != nil || len(jars) == 0 {
			return "", fmt.Errorf("%w (ZOOKEEPER_HOME=%s has no lib/zookeeper-*.jar)", ErrNotInstalled, home)
		}
		return filepath.Join(home, "conf") + ":" + filepath.Join(home, "lib", "*"), nil
	}
	jars := []string{filepath.Join(debian, "zookeeper.jar"), filepath.Join(debian, "slf4j-jdk14.jar")}
	for _, jar := range jars {
		if _, err := os.Stat(jar); err != nil {
			return "", ErrNotInstalled
		}
	}
	return strings.Join(jars, ":"), nil
}

// javaCommand is a program of JAVA_HOME's, or the one on PATH.
func javaCommand(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", name)
	}
	return name
}
