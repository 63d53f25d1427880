package bubble

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Clean waits until all goroutines are blocked, then requires that nothing is left below root except keep.
func Clean(t testing.TB, srv *zktest.Server, root string, keep ...string) {
	t.Helper()
	synctest.Wait()
	var paths []string
	for _, n := range srv.Tree("/") {
		paths = append(paths, n.Path)
	}
	require.NoError(t, check.Leftovers(root, paths, keep...))
}

// Requests counts the requests sent from now on, not counting pings.
func Requests(srv *zktest.Server) *zktest.Rule {
	synctest.Wait()
	return srv.Intercept(zktest.Match{Times: -1}, zktest.Proceed())
}

// Syncs returns how many syncs the clients send in a minute: some in a session that is kept proven, none in an idle
// one.
func Syncs(srv *zktest.Server, who zktest.Who) int {
	synctest.Wait() // a call in a session that was idle sends one
	syncs := srv.Intercept(zktest.Match{From: who, Op: zktest.OpSync, Times: -1}, zktest.Proceed())
	defer syncs.Remove()
	<-time.After(time.Minute)
	return syncs.Hits()
}

// Attempt is an acquisition that runs in its own goroutine.
type Attempt struct {
	Hold *zkrecipes.Hold
	Err  error
	done chan struct{}
}

// Start starts an acquisition.
func Start(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error)) *Attempt {
	a := &Attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Hold, a.Err = acquire(ctx)
	}()
	return a
}

// Over waits until all goroutines are blocked, and reports whether the acquisition has ended.
func (a *Attempt) Over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Waits waits until all goroutines are blocked, and requires that the acquisition is still waiting.
func (a *Attempt) Waits(t testing.TB) {
	t.Helper()
	if a.Over() {
		t.Fatalf("want it to wait, got %v, %v", a.Hold, a.Err)
	}
}

// Granted requires a grant within d.
func (a *Attempt) Granted(t testing.TB, d time.Duration) *zkrecipes.Hold {
	t.Helper()
	a.end(t, d)
	require.NoError(t, a.Err)
	require.NoError(t, a.Hold.Err())
	return a.Hold
}

// Failed requires a failure within d, and returns the error.
func (a *Attempt) Failed(t testing.TB, d time.Duration) error {
	t.Helper()
	a.end(t, d)
	require.Error(t, a.Err)
	require.Nil(t, a.Hold)
	return a.Err
}

func (a *Attempt) end(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(d):
	}
	if !a.Over() {
		t.Fatalf("still waiting after %v", d)
	}
}
