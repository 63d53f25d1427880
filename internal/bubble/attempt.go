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

// Clean requires that nothing is left below root but what is named keep, once everything has come to rest.
func Clean(t testing.TB, srv *zktest.Server, root string, keep ...string) {
	t.Helper()
	synctest.Wait()
	var paths []string
	for _, n := range srv.Tree("/") {
		paths = append(paths, n.Path)
	}
	require.NoError(t, check.Leftovers(root, paths, keep...))
}

// Requests counts what is sent from now on, once everything has come to rest, pings left out.
func Requests(srv *zktest.Server) *zktest.Rule {
	synctest.Wait()
	return srv.Intercept(zktest.Match{Times: -1}, zktest.Proceed())
}

// Attempt is an acquisition on its way.
type Attempt struct {
	Hold *zkrecipes.Hold
	Err  error
	done chan struct{}
}

// Start begins an acquisition.
func Start(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error)) *Attempt {
	a := &Attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Hold, a.Err = acquire(ctx)
	}()
	return a
}

// Over reports whether the acquisition has come to an end, once everything has come to rest.
func (a *Attempt) Over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Waits requires that the acquisition is waiting, once everything has come to rest.
func (a *Attempt) Waits(t testing.TB) {
	t.Helper()
	if a.Over() {
		t.Fatalf("want it to wait, got %v, %v", a.Hold, a.Err)
	}
}

// Granted requires that it is granted, within d.
func (a *Attempt) Granted(t testing.TB, d time.Duration) *zkrecipes.Hold {
	t.Helper()
	a.end(t, d)
	require.NoError(t, a.Err)
	require.NoError(t, a.Hold.Err())
	return a.Hold
}

// Failed requires that it has failed, within d, and returns the error.
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
