package lease_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
)

// readable is how many bytes of a transaction servers read: 2 × jute.maxbuffer. Apart from the paths, each prefixed
// with its length, a transaction has 48.
const (
	readable = 2 * 0xfffff
	overhead = 48
)

// fills is the environment variable that makes a process fill a session; its value is the connect string.
const fills = "LEASE_FILLS"

// asked skips a test that takes a minute unless it is requested.
func asked(t *testing.T) {
	t.Helper()
	if os.Getenv("NIGHTLY") == "" {
		t.Skip("takes a minute: NIGHTLY=1 runs it")
	}
}

// The session of one process has as many leases as fit into 0.7 of what servers read. All three servers survive its end
// by Close, by kill -9, and after a restart of all of them. They read it again when all restart.
func TestFull_AllServersSurviveTheEnd(t *testing.T) {
	asked(t)
	e := zkserver.StartEnsemble(t, 3, zkserver.WithSessionTimeouts(0, 10*time.Second))
	for name, end := range map[string]func(t *testing.T, p *exec.Cmd, in io.Closer){
		"Close":   func(t *testing.T, _ *exec.Cmd, in io.Closer) { must(t, in.Close()) },
		"kill -9": func(t *testing.T, p *exec.Cmd, _ io.Closer) { must(t, p.Process.Kill()) },
		"restart of all": func(t *testing.T, _ *exec.Cmd, in io.Closer) {
			restartAll(t, e)
			must(t, in.Close()) // or the session has expired meanwhile
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := exec.Command(os.Args[0], "-test.run=^TestFull_Process$", "-test.v")
			p.Env, p.Stderr = append(os.Environ(), fills+"="+e.Addr()), os.Stderr
			in, err := p.StdinPipe()
			must(t, err)
			out, err := p.StdoutPipe()
			must(t, err)
			must(t, p.Start())
			said := make([]byte, len("full"))
			for !strings.HasSuffix(string(said), "full") {
				next := make([]byte, 1)
				if _, err := out.Read(next); err != nil {
					t.Fatalf("the process ended before its session was full: %v", err)
				}
				said = append(said[1:], next...)
			}
			c := dial(t, e.Addr())
			leases, err := c.Children(t.Context(), "/app/capacity/leases")
			must(t, err)
			bytes := overhead
			for _, name := range leases {
				bytes += 4 + len("/app/capacity/leases/") + len(name)
			}
			t.Logf("%d leases, and an end of %d bytes, %.3f of what servers read", len(leases), bytes, float64(bytes)/readable)
			if part := float64(bytes) / readable; part < 0.7 || part > 0.75 {
				t.Fatalf("%.3f of what servers read: want 0.7", part)
			}
			end(t, p, in)
			_, _ = io.Copy(io.Discard, out)
			_ = p.Wait() // it may be killed
			for stat := (zk.Stat{NumChildren: 1}); stat.NumChildren > 0; time.Sleep(50 * time.Millisecond) {
				_, stat, err = c.Get(t.Context(), "/app/capacity/leases")
				must(t, err)
			}
			restartAll(t, e)
			for _, s := range e.Servers { // each has read it
				_, err := dial(t, s.Addr()).Create(t.Context(), "/alive-", nil, zk.FlagSequence)
				must(t, err)
			}
		})
	}
}

// TestFull_Process is the process of TestFull_AllServersSurviveTheEnd.
func TestFull_Process(t *testing.T) {
	servers := os.Getenv(fills)
	if servers == "" {
		t.Skip("a part of TestFull_AllServersSurviveTheEnd")
	}
	c := dial(t, servers, conn.WithSessionTimeout(10*time.Second))
	s, err := semaphore.New(c, "/app/capacity", 1_000_000)
	must(t, err)
	const lease = 4 + len("/app/capacity/leases/_c_") + 36 + len("-lease-0000000000")
	for left := readable*7/10/lease + 1; left > 0; left -= 3000 {
		_, err := s.Acquire(t.Context(), min(3000, left))
		must(t, err)
	}
	if _, err := s.Acquire(t.Context(), 3000); !errors.Is(err, zkrecipes.ErrSessionFull) {
		t.Fatalf("3000 more: %v", err)
	}
	fmt.Print("full")
	_, _ = io.Copy(io.Discard, os.Stdin)
	must(t, c.Close())
}

// The count is exact: a server reads the end of a session of 2 × jute.maxbuffer, but not of one byte more. The client
// here assumes a larger jute.maxbuffer.
func TestFull_OneByteMoreEndsTheServer(t *testing.T) {
	asked(t)
	for more, starts := range []bool{true, false} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			s := zkserver.Start(t)
			if !s.Ours() {
				t.Skip("it ends the server")
			}
			c := dial(t, s.Addr(), conn.WithMaxRequestSize(4<<20))
			const length = 1000
			left := readable - overhead + more
			for i := 0; left > 0; i++ {
				bytes := 4 + length
				if left < 2*bytes {
					bytes = left
				}
				name := fmt.Sprintf("/%d", i)
				_, err := c.Create(t.Context(), name+strings.Repeat("x", bytes-4-len(name)), nil, zk.FlagEphemeral)
				must(t, err)
				left -= bytes
			}
			must(t, c.Close())
			must(t, s.Kill())
			err := s.Restart()
			if started := err == nil; started != starts {
				t.Errorf("an end of %d bytes: the server starts: %v (%v)", readable+more, started, err)
			}
			if err != nil {
				t.Log(strings.SplitN(err.Error(), "\n", 2)[0])
			}
		})
	}
}

// restartAll kills all servers, then starts all.
func restartAll(t *testing.T, e *zkserver.Ensemble) {
	t.Helper()
	for _, s := range e.Servers {
		must(t, s.Kill())
	}
	errs := make([]error, len(e.Servers))
	var all sync.WaitGroup
	for i, s := range e.Servers {
		all.Go(func() { errs[i] = s.Restart() })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	must(t, e.WaitReady())
}
