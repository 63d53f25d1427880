package conn_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/trial"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// directory is what a function of WithServers returns.
type directory struct {
	mu    sync.Mutex
	list  []string
	err   error
	asked trial.Log[struct{}]
}

func (d *directory) set(err error, list ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list, d.err = list, err
}

func (d *directory) servers(context.Context) ([]string, error) {
	d.asked.Add(struct{}{})
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list, d.err
}

// lines is a log of warnings and worse.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

func (l *lines) option() conn.Option {
	return conn.WithLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn})))
}

// addresses are those of some fronts, as the members of a list.
func addresses(fronts []*zktest.Front) (list []string) {
	for _, f := range fronts {
		list = append(list, f.Addr())
	}
	return list
}

// The three servers of the connect string are replaced one by one. The client finds the others, and its lock is held throughout.
func TestWithServers_AllServersReplaced_TheHoldLivesOn(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		fronts := srv.Fronts()
		d := &directory{}
		d.set(nil, addresses(fronts[:3])...)
		c := trial.DialTo(t, strings.Join(addresses(fronts[:3]), ","), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithServers(d.servers))
		m, err := mutex.New(c, "/lock")
		require.NoError(t, err)
		hold, err := m.Lock(t.Context())
		require.NoError(t, err)
		for i := range 3 {
			d.set(nil, addresses(fronts[i+1:i+4])...)
			fronts[i].Stop()
			time.Sleep(time.Minute)
			require.NoError(t, hold.Err())
		}
		require.Contains(t, addresses(fronts[3:6]), c.Status().Server)
		require.NoError(t, hold.Release(t.Context()))
	}, zktest.WithFronts(7))
}

// Rounds without a server ask once each.
func TestWithServers_EachRound_AsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &directory{}
		d.set(nil, "a", "b:1", "b:1")
		var dialed trial.Log[string]
		dial := func(_ context.Context, _, address string) (net.Conn, error) {
			dialed.Add(address)
			return nil, syscall.ECONNREFUSED
		}
		_, err := conn.Dial(trial.Within(t, 10*time.Second+time.Millisecond), "first", conn.WithDialer(dial), conn.WithServers(d.servers), trial.EverySecond)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Len(t, d.asked.All(), 12, "once by Dial, then at 0 s, 1 s and so on")
		require.Len(t, dialed.All(), 2*11)
		require.Subset(t, []string{"a:2181", "b:1"}, dialed.Values())
	})
}

// What a function returns that is of no use leaves the last list, and is logged once. What is of use is taken.
func TestWithServers_BadAnswer_TheLastListStays(t *testing.T) {
	t.Parallel()
	away := errors.New("the directory is away")
	for name, c := range map[string]struct {
		err  error
		list []string
		says string
	}{
		"an error":         {err: away, list: []string{"elsewhere:2181"}, says: "the directory is away"},
		"empty":            {says: "no servers"},
		"no address":       {list: []string{"", ":2181", "::1", "[zk]:1", "a b", "zk:0", "zk:x", "zk:99999", "[::1"}, says: "the last ones stay"},
		"one of them good": {list: []string{"zk:65536", "127.0.0.2:1"}, says: "a part of the servers cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				d, log := &directory{}, &lines{}
				d.set(nil, "127.0.0.2:1")
				client := trial.DialTo(t, srv.Fronts()[0].Addr(), conn.WithDialer(srv.DialAs(trial.Label)), conn.WithServers(d.servers), log.option())
				require.Equal(t, "127.0.0.2:1", client.Status().Server)
				d.set(c.err, c.list...)
				for range 3 {
					time.Sleep(time.Minute)
					trial.Reconnect(srv, client)
					require.Equal(t, "127.0.0.2:1", client.Status().Server)
				}
				require.Len(t, log.all(), 1)
				require.Contains(t, log.all()[0], c.says)

				d.set(nil, "127.0.0.3:1")
				time.Sleep(time.Minute)
				trial.Reconnect(srv, client)
				require.Equal(t, "127.0.0.3:1", client.Status().Server)
			}, zktest.WithFronts(3))
		})
	}
}

// A function that does not answer costs half of an attempt to connect.
func TestWithServers_NoAnswer_IsNotWaitedFor(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		hang := func(ctx context.Context) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		var c *conn.Client
		open := func() { c = trial.Dial(t, srv, conn.WithServers(hang), conn.WithConnectTimeout(time.Second)) }
		require.Equal(t, time.Second, trial.After(open), "once by Dial, once by the first round")
		time.Sleep(time.Minute)
		require.InDelta(t, 0.5, trial.After(func() { trial.Reconnect(srv, c) }).Seconds(), 0.002)
	})
}

func TestWithServers_NilFunction_IsRefused(t *testing.T) {
	t.Parallel()
	_, err := conn.New("zk", conn.WithServers(nil))
	require.EqualError(t, err, "connect to zk: servers: nil function")
}
