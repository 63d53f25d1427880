package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	_ "embed"

	"github.com/zkrecipes/zkrecipes/integration/kit/peer"
)

//go:embed testdata/kazoobench.py
var kazooSource string

// kazoo is a set of Python programs with one session each. In one program, the sessions' threads would take turns.
type kazoo []*peer.Program

func startKazoo(addr string, n int) (k kazoo, err error) {
	for range n {
		p, err := peer.StartProgram(exec.Command("/usr/bin/python3", "-c", kazooSource, addr))
		if err != nil {
			return k, fmt.Errorf("start kazoo, from apt-get install python3-kazoo: %w", err)
		}
		k = append(k, p)
	}
	return k, nil
}

// contestant returns the contestant of the first n programs.
func (k kazoo) contestant(n int) contestant {
	c := contestant{name: "kazoo, a process each"}
	for _, p := range k[:n] {
		c.pids = append(c.pids, p.PID())
	}
	c.rate = func(_ context.Context, slice time.Duration) (total float64, err error) {
		var all sync.WaitGroup
		parts, errs := make([]done, n), make([]error, n)
		for i, p := range k[:n] {
			all.Go(func() { parts[i], errs[i] = do(p, slice.Milliseconds()) })
		}
		all.Wait()
		for _, part := range parts {
			total += part.rate
		}
		return total, errors.Join(errs...)
	}
	return c
}

func (k kazoo) stop() {
	for _, p := range k {
		p.Stop()
	}
}
