//go:build unix

package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// frozenServer is the environment variable that passes the address of the server to a process that TestFrozenProcess
// freezes.
const frozenServer = "ZKRECIPES_FROZEN_SERVER"

const frozenTimeout = 6 * time.Second

// TestFrozenProcess stops processes that hold one of each recipe until after the deadline, then resumes them. Every
// context that was passed to a body reports its end when it is checked, before any timer has fired.
func TestFrozenProcess(t *testing.T) {
	if addr := os.Getenv(frozenServer); addr != "" {
		holdAndLook(t, addr)
		return
	}
	srv := zktest.Run(t, zktest.WithSessionTimeouts(frozenTimeout, frozenTimeout))
	var children [4]*exec.Cmd // in some of them a timer fires before the first check
	var said [len(children)]*bufio.Scanner
	for i := range children {
		children[i] = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrozenProcess$")
		children[i].Env = append(os.Environ(), frozenServer+"="+srv.Addr()+"/"+fmt.Sprint(i))
		out, err := children[i].StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, children[i].Start())
		said[i] = bufio.NewScanner(out)
	}
	for i := range children {
		require.True(t, said[i].Scan())
		require.Equal(t, "holding", said[i].Text())
	}
	for _, child := range children {
		var now syscall.WaitStatus
		for { // it may stop late
			_, err := syscall.Wait4(child.Process.Pid, &now, syscall.WUNTRACED, nil)
			if !errors.Is(err, syscall.EINTR) {
				require.NoError(t, err)
				break
			}
		}
		require.True(t, now.Stopped())
	}
	time.Sleep(frozenTimeout)
	for i, child := range children {
		require.NoError(t, child.Process.Signal(syscall.SIGCONT))
		states := map[string]string{}
		for said[i].Scan() {
			if name, state, found := strings.Cut(said[i].Text(), ": "); found {
				states[name] = state
			}
		}
		require.NoError(t, child.Wait())
		require.Equal(t, map[string]string{
			"Mutex.Do": "ended", "RWLock.Do": "ended", "RWLock.RDo": "ended", "Semaphore.Do": "ended",
			"Election.Run": "ended", "LockAll": "ended",
		}, states)
	}
}

// body is what one recipe passed to its body.
type body struct {
	name string
	ctx  context.Context //nolint:containedctx // it is what the test checks
	hold interface{ ValidUntil() time.Time }
}

// holdAndLook holds one of each recipe, stops its own process until the parent resumes it, and then checks. It has one
// processor, so hardly any other goroutine has run before the first check.
func holdAndLook(t *testing.T, addr string) {
	c, err := conn.Dial(t.Context(), addr, conn.WithSessionTimeout(frozenTimeout), bubble.Silent)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // it never fails
	bodies := make(chan body)
	stay := func(name string) func(context.Context, *zkrecipes.Hold) error {
		return func(ctx context.Context, h *zkrecipes.Hold) error {
			bodies <- body{name, ctx, h}
			<-ctx.Done()
			return nil
		}
	}
	m, err := mutex.New(c, "/frozen/mutex")
	require.NoError(t, err)
	go func() { _ = m.Do(t.Context(), stay("Mutex.Do")) }()
	w, err := rwlock.New(c, "/frozen/write")
	require.NoError(t, err)
	go func() { _ = w.Do(t.Context(), stay("RWLock.Do")) }()
	r, err := rwlock.New(c, "/frozen/read")
	require.NoError(t, err)
	go func() { _ = r.RDo(t.Context(), stay("RWLock.RDo")) }()
	s, err := semaphore.New(c, "/frozen/semaphore", 2)
	require.NoError(t, err)
	go func() { _ = s.Do(t.Context(), 2, stay("Semaphore.Do")) }()
	e, err := election.New(c, "/frozen/leader")
	require.NoError(t, err)
	go func() {
		_ = e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			return stay("Election.Run")(ctx, term.Hold)
		})
	}()
	go func() {
		x, _ := mutex.New(c, "/frozen/x")
		y, _ := mutex.New(c, "/frozen/y")
		if all, err := multilock.LockAll(t.Context(), x.Part(), y.Part()); err == nil {
			bodies <- body{"LockAll", all.Context(), all}
		}
	}()
	var looking []body
	for len(looking) < 6 {
		looking = append(looking, <-bodies)
	}

	runtime.GOMAXPROCS(1)
	fmt.Println("holding")
	last := time.Now()
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	for now := time.Now(); now.Sub(last) < frozenTimeout; now = time.Now() { // a thread keeps running for a moment
		last = now
	}
	states := make([]string, len(looking))
	for i, b := range looking {
		states[i] = "ended"
		if until, now := b.hold.ValidUntil(), time.Now(); now.Before(until) {
			states[i] = "proven"
		} else if b.ctx.Err() == nil {
			states[i] = "alive past its deadline"
		}
	}
	for i, b := range looking {
		fmt.Printf("%s: %s\n", b.name, states[i])
	}
}
