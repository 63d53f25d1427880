// Package versions finds the releases of ZooKeeper and Curator that the tests run: Debian's packages, and those that
// fetch.sh has put into the cache.
package versions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A Product is a set of jars that are released together. Its value is its name in the cache.
type Product string

// The products. An environment variable selects the release of each: ZKRECIPES_ZOOKEEPER, ZKRECIPES_CURATOR,
// ZKRECIPES_DISCOVERY.
const (
	ZooKeeper Product = "zookeeper"
	Curator   Product = "curator"
	Discovery Product = "discovery" // of Curator, with Spring Cloud Zookeeper; Debian has none
)

// Debian is the release that Debian packages: ZooKeeper 3.8.0 with security fixes, Curator 5.4.0.
const Debian = "debian"

// ErrNotInstalled explains how to get a release.
var ErrNotInstalled = errors.New("not installed: run integration/kit/versions/fetch.sh (needs Maven), or " +
	"apt-get install zookeeper libcurator-recipes-java default-jdk-headless")

// debianJars are in /usr/share/java. Their manifests name the other jars that they need, except a logger.
var debianJars = map[Product][]string{
	ZooKeeper: {"zookeeper", "slf4j-jdk14"},
	Curator:   {"curator-recipes", "curator-framework", "curator-client", "zookeeper", "slf4j-jdk14"},
}

// ClassPath returns the Java class path of a release: "debian", a number such as "3.9.5", or a prefix of a number, such
// as "3.9", which selects the newest such release in the cache. If release is empty, the environment variable of the
// product selects it. If that is not set either, it is the newest release in the cache, or Debian's if the cache is
// empty. If the release is not installed, the error matches ErrNotInstalled.
func (p Product) ClassPath(release string) (string, error) {
	variable := "ZKRECIPES_" + strings.ToUpper(string(p))
	if release == "" {
		release = os.Getenv(variable)
	}
	if release == Debian {
		return p.debian()
	}
	dir := p.cached(release)
	switch {
	case dir != "":
		return filepath.Join(dir, "*"), nil
	case release != "":
		return "", fmt.Errorf("%s %s is %w", p, release, ErrNotInstalled)
	default:
		return p.debian()
	}
}

func (p Product) debian() (string, error) {
	var jars []string
	if len(debianJars[p]) == 0 {
		return "", fmt.Errorf("%s is no package of Debian: %w", p, ErrNotInstalled)
	}
	for _, name := range debianJars[p] {
		jar := filepath.Join("/usr/share/java", name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return "", fmt.Errorf("%s of Debian is %w", p, ErrNotInstalled)
		}
		jars = append(jars, jar)
	}
	return strings.Join(jars, ":"), nil
}

// cached returns the directory of the newest release in the cache whose number is release or begins with it, or "".
func (p Product) cached(release string) string {
	_, here, _, _ := runtime.Caller(0)
	folders, err := filepath.Glob(filepath.Join(filepath.Dir(here), "cache", string(p)+"-[0-9]*[0-9]"))
	if err != nil {
		return ""
	}
	newest := ""
	for _, dir := range folders { // sorted by name, which is correct for numbers below ten
		number := strings.TrimPrefix(filepath.Base(dir), string(p)+"-")
		if release == "" || number == release || strings.HasPrefix(number, release+".") {
			newest = dir
		}
	}
	return newest
}
