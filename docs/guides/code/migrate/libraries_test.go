package migrate

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The other libraries need sockets, so these tests run in real time.

// silent keeps the log of go-zookeeper out of the test output.
type silent struct{}

func (silent) Printf(string, ...any) {}

func connect(t *testing.T, srv *zktest.Server) (*zk.Conn, *conn.Client) {
	old, events, err := zk.Connect([]string{srv.Addr()}, 10*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(old.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	client, err := conn.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // always nil
	return old, client
}

// background runs f until the test ends.
func background(t *testing.T, f func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

var open = zk.WorldACL(zk.PermAll)

// Every change arrives, including the creation of the node, for which GetW cannot wait.
func TestConfig_EachChangeArrives(t *testing.T) {
	old, client := connect(t, zktest.Run(t))
	applied := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		return Config(ctx, client, func(data []byte) { applied <- string(data) })
	})
	for _, path := range []string{"/app", "/app/config"} {
		_, err := old.Create(path, []byte("1"), 0, open)
		require.NoError(t, err)
	}
	require.Equal(t, "1", <-applied)
	_, err := old.Set("/app/config", []byte("2"), -1)
	require.NoError(t, err)
	require.Equal(t, "2", <-applied)
}

// After an expiry the ephemeral node is created again, without any code in the program.
func TestSessions_AndWhatComesBack(t *testing.T) {
	srv := zktest.Run(t)
	old, client := connect(t, srv)
	said := make(chan string, 10)
	background(t, func(ctx context.Context) error {
		Sessions(ctx, client, func(what string) { said <- what })
		return nil
	})
	n, err := Register(client, "10.0.0.7:8080")
	require.NoError(t, err)
	require.NoError(t, n.Ready(t.Context()))
	_, before, err := old.Get(n.Path())
	require.NoError(t, err)
	require.Equal(t, "connected", <-said)

	require.True(t, srv.Expire(before.EphemeralOwner))
	for what := <-said; what != "connected"; what = <-said {
		require.Contains(t, []string{"not connected", "session lost"}, what)
	}
	require.NoError(t, n.Ready(t.Context()))
	data, after, err := old.Get(n.Path())
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7:8080", string(data))
	require.NotEqual(t, before.EphemeralOwner, after.EphemeralOwner)
}

// leadUntil returns a function that leads until the term ends or the channel is closed, and signals when it begins.
func leadUntil(began, end chan struct{}) func(context.Context, *election.Term) error {
	return func(ctx context.Context, _ *election.Term) error {
		began <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
}

// A leader that uses zk.Lock and one that uses an election never lead at the same time.
func TestLeader_TakesTurnsWithLock(t *testing.T) {
	old, client := connect(t, zktest.Run(t))
	lock := zk.NewLock(old, "/service/leader", open)
	require.NoError(t, lock.Lock())
	began := make(chan struct{})
	stop := background(t, func(ctx context.Context) error { return Leader(ctx, client, leadUntil(began, nil)) })
	waiting, _, err := old.Children("/service/leader")
	require.NoError(t, err)
	for len(waiting) < 2 {
		waiting, _, err = old.Children("/service/leader")
		require.NoError(t, err)
	}
	select {
	case <-began:
		t.Fatal("two lead")
	default:
	}
	other, err := election.New(client, "/service/leader") // the default layout
	require.NoError(t, err)
	_, err = other.Campaign(t.Context())
	require.ErrorIs(t, err, zkrecipes.ErrForeignContender)
	require.NoError(t, lock.Unlock())
	<-began
	locked := make(chan error, 1)
	go func() { locked <- lock.Lock() }()
	stop()
	require.NoError(t, <-locked)
	require.NoError(t, lock.Unlock())
}

// While both libraries are in use, followers of both kinds see leaders of both kinds.
func TestBesideLibkv(t *testing.T) {
	old, client := connect(t, zktest.Run(t))
	lock := zk.NewLock(old, "/service/leader", open)
	libkvLocks := func() error { // like libkv: it locks, and writes its value to the parent
		if err := lock.Lock(); err != nil {
			return err
		}
		_, err := old.Set("/service/leader", []byte("old"), -1)
		return err
	}
	require.NoError(t, libkvLocks())

	announced := make(chan string, 10)
	background(t, func(ctx context.Context) error {
		return FollowBesideLibkv(ctx, client, func(leader string) { announced <- leader })
	})
	require.Equal(t, "old", <-announced)
	_, _, changed, err := old.GetW("/service/leader") // a follower of libkv
	require.NoError(t, err)

	began := make(chan struct{})
	stop := background(t, func(ctx context.Context) error {
		return CandidateBesideLibkv(ctx, client, leadUntil(began, nil))
	})
	require.NoError(t, lock.Unlock())
	<-began
	require.Equal(t, "node-1", <-announced)
	require.Equal(t, zk.EventNodeDataChanged, (<-changed).Type)
	data, _, err := old.Get("/service/leader")
	require.NoError(t, err)
	require.Equal(t, "node-1", string(data))

	locked := make(chan error, 1)
	go func() { locked <- libkvLocks() }()
	stop()
	require.NoError(t, <-locked)
	require.Equal(t, "old", <-announced)
}
