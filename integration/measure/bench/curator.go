package bench

import (
	"context"
	"os"
	"strconv"
	"time"

	_ "embed"

	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
)

//go:embed testdata/CuratorBench.java
var curatorSource []byte

// curator is a Java program with Curator clients, which work on command.
type curator struct {
	*peer.Program
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
	if c.Program, err = peer.StartCurator(c.dir, "CuratorBench", curatorSource, nil, addrs...); err != nil {
		return nil, err
	}
	return c, nil
}

// contestant returns the contestant of n clients at the address with the given index.
func (c *curator) contestant(work string, at, n int) contestant {
	return contestant{"Curator", []int{c.PID()}, func(_ context.Context, slice time.Duration) (float64, error) {
		return c.work(work, at, n, slice)
	}}
}

// work makes n clients work, and returns their sections per second.
func (c *curator) work(work string, at, n int, slice time.Duration) (rate float64, err error) {
	if !c.warm[work] { // the JVM compiles code that runs often
		c.warm[work] = true
		if _, err := c.work(work, 0, n, 4*time.Second); err != nil {
			return 0, err
		}
	}
	answer, err := c.Do(work, at, n, slice.Milliseconds())
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(answer, 64)
}

func (c *curator) stop() {
	if c == nil {
		return
	}
	c.Stop()
	_ = os.RemoveAll(c.dir)
}
