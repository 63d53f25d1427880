// Package testkit has what the tests of the recipes share. It is for testing/synctest bubbles.
package testkit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Timeout is the session timeout of the clients, six ticks of the server.
const Timeout = 12 * time.Second

// Server starts a server for one test.
func Server(t testing.TB, opts ...zktest.Option) *zktest.Server {
	t.Helper()
	return zktest.Run(t, append([]zktest.Option{zktest.InMemory()}, opts...)...)
}

// Client connects a client, whose label is also its identity, and closes it when the test ends.
func Client(t testing.TB, srv *zktest.Server, label string, opts ...conn.Option) *conn.Client {
	t.Helper()
	return ClientAt(t, srv, label, "", opts...)
}

// ClientAt is Client with a chroot.
func ClientAt(t testing.TB, srv *zktest.Server, label, chroot string, opts ...conn.Option) *conn.Client {
	t.Helper()
	own := []conn.Option{
		conn.WithDialer(srv.DialAs(label)), conn.WithSessionTimeout(Timeout), conn.WithIdentity(label),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	c, err := conn.Dial(ctx, srv.Addr()+chroot, append(own, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

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

// Try is an acquisition on its way.
type Try struct {
	Hold *zkrecipes.Hold
	Err  error
	done chan struct{}
}

// Start begins an acquisition.
func Start(ctx context.Context, acquire func(context.Context) (*zkrecipes.Hold, error)) *Try {
	p := &Try{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.Hold, p.Err = acquire(ctx)
	}()
	return p
}

// Over reports whether the acquisition has come to an end, once everything has come to rest.
func (p *Try) Over() bool {
	synctest.Wait()
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Waits requires that the acquisition is waiting, once everything has come to rest.
func (p *Try) Waits(t testing.TB) {
	t.Helper()
	if p.Over() {
		t.Fatalf("want it to wait, got %v, %v", p.Hold, p.Err)
	}
}

// Granted requires that it is granted, within d.
func (p *Try) Granted(t testing.TB, d time.Duration) *zkrecipes.Hold {
	t.Helper()
	p.end(t, d)
	require.NoError(t, p.Err)
	require.NoError(t, p.Hold.Err())
	return p.Hold
}

// Failed requires that it has failed, within d, and returns the error.
func (p *Try) Failed(t testing.TB, d time.Duration) error {
	t.Helper()
	p.end(t, d)
	require.Error(t, p.Err)
	require.Nil(t, p.Hold)
	return p.Err
}

func (p *Try) end(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(d):
	}
	if !p.Over() {
		t.Fatalf("still waiting after %v", d)
	}
}
