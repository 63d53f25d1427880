package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "embed"

	"github.com/zkrecipes/zkrecipes/integration/kit/versions"
)

//go:embed testdata/CuratorBench.java
var curatorSource []byte

// curator is a Java program with Curator clients, which work on command.
type curator struct {
	*program
	dir  string
	warm map[string]bool
}

// startCurator compiles the program for the Curator that ZKRECIPES_CURATOR selects, and starts it with clients at each
// address.
func startCurator(addrs []string) (_ *curator, err error) {
	c := &curator{warm: map[string]bool{}}
	if c.dir, err = os.MkdirTemp("", "curator-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(c.dir) // err is the error that matters
		}
	}()
	jars, err := versions.Curator.ClassPath("")
	if err != nil {
		return nil, err
	}
	path := c.dir + ":" + jars
	source := filepath.Join(c.dir, "CuratorBench.java")
	if err := os.WriteFile(source, curatorSource, 0o640); err != nil {
		return nil, err
	}
	if out, err := exec.Command("javac", "-nowarn", "-cp", path, "-d", c.dir, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac (apt-get install default-jdk-headless): %w\n%s", err, out)
	}
	c.program, err = startProgram(exec.Command("java", append([]string{
		"-Djava.util.logging.config.file=/dev/null", "-cp", path,
		"CuratorBench",
	}, addrs...)...))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// contestant returns the contestant of n clients at the address with the given index.
func (c *curator) contestant(work string, at, n int) contestant {
	return contestant{"Curator", []int{c.pid()}, func(_ context.Context, slice time.Duration) (float64, error) {
		done, err := c.work(work, at, n, slice)
		return done.rate, err
	}}
}

func (c *curator) work(work string, at, n int, slice time.Duration) (d done, err error) {
	if !c.warm[work] { // the JVM compiles code that runs often
		c.warm[work] = true
		if _, err := c.work(work, 0, n, 4*time.Second); err != nil {
			return done{}, err
		}
	}
	return c.do(work, at, n, slice.Milliseconds())
}

func (c *curator) stop() {
	if c == nil {
		return
	}
	c.program.stop()
	_ = os.RemoveAll(c.dir)
}
