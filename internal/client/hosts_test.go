package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// names is what a name server knows: the addresses of each name. It does not answer for a name without addresses.
type names struct {
	mu    sync.Mutex
	known map[string][]string
	fault error // the error of every answer
}

var errNoName = &net.DNSError{Err: "no such host", IsNotFound: true}

func (n *names) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name] = addresses
}

func (n *names) fail(fault *net.DNSError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = nil
	if fault != nil {
		n.fault = fault
	}
}

func (n *names) lookup(ctx context.Context, host string) ([]string, error) {
	n.mu.Lock()
	addresses, ok := n.known[host]
	fault := n.fault
	n.mu.Unlock()
	switch {
	case fault != nil:
		return nil, fault
	case !ok:
		return nil, errNoName
	case len(addresses) == 0:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		return addresses, nil
	}
}

// network dials addresses. Unknown ones refuse the connection.
type network struct {
	servers map[string]conn.DialFunc
	dialed  trial.Log[lifetime.Server]
}

func (n *network) dial(ctx context.Context, server lifetime.Server) (net.Conn, error) {
	n.dialed.Add(server)
	dial, ok := n.servers[server.Address]
	if !ok {
		return nil, syscall.ECONNREFUSED
	}
	return dial(ctx, "tcp", server.Address)
}

// hangUp is a server that accepts, and ends the connection without an answer.
func hangUp(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = far.Read(make([]byte, 48))
		_ = far.Close()
	}()
	return near, nil
}

// open connects with names that are resolved.
func open(t *testing.T, ns *names, net *network, servers ...string) *client.Client {
	t.Helper()
	c, err := tryOpen(t.Context(), ns, net, servers...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func tryOpen(ctx context.Context, ns *names, net *network, servers ...string) (*client.Client, error) {
	life := lifetime.Config{SessionTimeout: trial.Timeout, Log: slog.New(slog.DiscardHandler), Dial: net.dial}
	return client.Open(ctx, &client.Config{Config: session.Config{Config: life}, Servers: servers, Lookup: ns.lookup})
}

// The first address accepts and hangs up, like a server without a leader. The client continues with the next one
// without a pause.
func TestLookup_NameWithSeveralAddresses_EachIsTried(t *testing.T) {
	t.Parallel()
	for range 20 { // the order is random
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			ns := &names{known: map[string][]string{"zk": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}}
			lan := &network{servers: map[string]conn.DialFunc{"10.0.0.1:2181": hangUp, "10.0.0.3:2181": srv.DialAs(trial.Label)}}
			c := open(t, ns, lan, "zk:2181")
			require.Equal(t, "zk:2181 (10.0.0.3)", c.Status().Server)
			require.Zero(t, c.Status().Since.Sub(lan.dialed.All()[0].At))
			for _, server := range lan.dialed.Values() {
				require.Equal(t, "zk:2181", server.Name, "which TLS verifies")
			}
		})
	}
}

// Without a server, each round tries all addresses once, in a different order, and not the same address twice in a row.
func TestLookup_EachRound_TriesAllAddressesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ns := &names{known: map[string][]string{
			"zk1": {"10.0.0.1", "10.0.0.2", "10.0.0.1"}, // as package net returns a line that /etc/hosts has twice
			"zk2": {"10.0.0.3"},
		}}
		lan := &network{}
		_, err := tryOpen(trial.Within(t, 5*time.Minute), ns, lan, "zk1:2181", "zk2:2182")
		require.ErrorIs(t, err, trial.ErrTooLong)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Regexp(t, `\(connect to (zk1:2181 \(10\.0\.0\.[12]\)|zk2:2182 \(10\.0\.0\.3\)): connection refused\)$`,
			err.Error())
		all := lan.dialed.All()
		firsts := map[string]bool{}
		var before string
		for round := range slices.Chunk(all[:len(all)/3*3], 3) {
			var addresses []string
			for _, dial := range round {
				require.Equal(t, round[0].At, dial.At)
				require.NotEqual(t, before, dial.What.Address)
				before = dial.What.Address
				addresses = append(addresses, before)
			}
			require.ElementsMatch(t, []string{"10.0.0.1:2181", "10.0.0.2:2181", "10.0.0.3:2182"}, addresses)
			firsts[addresses[0]] = true
		}
		require.Len(t, firsts, 3)
	})
}

// Servers move to other addresses, and the next round finds them there.
func TestLookup_ServerMoved_IsFound(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ns := &names{known: map[string][]string{"zk": {"10.0.0.1"}}}
		lan := &network{servers: map[string]conn.DialFunc{"10.0.0.1:2181": srv.DialAs(trial.Label)}}
		c := open(t, ns, lan, "zk:2181")
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		ns.set("zk", "10.0.0.2")
		lan.servers = map[string]conn.DialFunc{"10.0.0.2:2181": srv.DialAs(trial.Label)}
		srv.Cut(trial.Ours)
		synctest.Wait()
		require.Equal(t, "zk:2181 (10.0.0.2)", c.Status().Server, "at once")
		require.NoError(t, s.Err())
	})
}

// A name server that fails or hangs costs one bounded wait for each round. Names that were resolved keep their
// addresses, and the other servers are tried.
func TestLookup_Fails_TheOthersAreTried(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*names){
		"no such name": func(ns *names) { ns.mu.Lock(); defer ns.mu.Unlock(); delete(ns.known, "zk1") },
		"no answer":    func(ns *names) { ns.set("zk1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				ns := &names{known: map[string][]string{"zk2": {"10.0.0.2"}}}
				lan := &network{servers: map[string]conn.DialFunc{"10.0.0.2:2181": srv.DialAs(trial.Label)}}
				fail(ns)
				var c *client.Client
				require.LessOrEqual(t, trial.After(func() { c = open(t, ns, lan, "zk1:2181", "zk2:2181") }), trial.Timeout/6)
				require.ErrorContains(t, c.Status().LastError, "connect to zk1:2181: ")

				ns.set("zk1", "10.0.0.1")
				lan.servers["10.0.0.1:2181"] = lan.servers["10.0.0.2:2181"]
				time.Sleep(2 * time.Second)
				srv.Cut(trial.Ours)
				synctest.Wait()
				require.Equal(t, "zk1:2181 (10.0.0.1)", c.Status().Server)

				fail(ns)
				time.Sleep(2 * time.Second)
				delete(lan.servers, "10.0.0.2:2181")
				srv.Cut(trial.Ours)
				time.Sleep(trial.Timeout / 6)
				synctest.Wait()
				require.Equal(t, "zk1:2181 (10.0.0.1)", c.Status().Server, "the address is still known")
			})
		})
	}
}

// A list whose names have no addresses leaves those of the previous list in place.
func TestLookup_NamesOfANewListDoNotExist_TheAddressesBeforeStay(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ns := &names{known: map[string][]string{"zk1": {"10.0.0.1"}}}
		lan := &network{servers: map[string]conn.DialFunc{"10.0.0.1:2181": srv.DialAs(trial.Label)}}
		list := []string{"zk1:2181"}
		life := lifetime.Config{SessionTimeout: trial.Timeout, Log: slog.New(slog.DiscardHandler), Dial: lan.dial}
		source := &client.Source{Name: "list", Servers: func(context.Context) ([]string, error) { return list, nil }}
		c, err := client.Open(t.Context(),
			&client.Config{Config: session.Config{Config: life}, Source: source, Lookup: ns.lookup})
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		time.Sleep(2 * time.Second)
		list = []string{"nobody:2181"}
		srv.Cut(trial.Ours)
		synctest.Wait()
		require.Equal(t, "zk1:2181 (10.0.0.1)", c.Status().Server)
		require.ErrorContains(t, c.Status().LastError, "connect to nobody:2181: ")
	})
}

// If no name exists for 5 s, the error lists all of them.
func TestLookup_NothingFound_IsAnErrorOfOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := trial.After(func() {
			_, err := tryOpen(t.Context(), &names{}, &network{}, "zk1:2181", "zk2:2181")
			require.EqualError(t, err, "none of the server names resolves: lookup : no such host\nlookup : no such host")
		})
		require.Equal(t, 5*time.Second, took)
	})
}

// The client waits for names that appear while a program starts.
func TestLookup_NamesAppear_OpenSucceeds(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ns := &names{known: map[string][]string{}}
		lan := &network{servers: map[string]conn.DialFunc{"10.0.0.1:2181": srv.DialAs(trial.Label)}}
		time.AfterFunc(4*time.Second, func() { ns.set("zk1", "10.0.0.1") })
		took := trial.After(func() { open(t, ns, lan, "zk1:2181", "zk2:2181") })
		require.LessOrEqual(t, took, 4*time.Second+250*time.Millisecond)
	})
}

// A name server that refuses, or reports a failure, proves nothing about the names. The client waits for it as long as
// the caller does.
func TestLookup_ResolverFails_IsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, fault := range []*net.DNSError{
		{Err: "connection refused"}, {Err: "server misbehaving", IsTemporary: true}, {Err: "i/o timeout", IsTimeout: true},
	} {
		trial.Run(t, func(t *testing.T, srv *zktest.Server) {
			ns := &names{known: map[string][]string{"zk1": {"10.0.0.1"}}}
			lan := &network{servers: map[string]conn.DialFunc{"10.0.0.1:2181": srv.DialAs(trial.Label)}}
			impatient := errors.New("impatient")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, impatient)
			defer cancel()
			ns.fail(fault)
			_, err := tryOpen(ctx, ns, lan, "zk1:2181", "zk2:2181")
			require.ErrorIs(t, err, impatient)
			require.ErrorContains(t, err, fault.Err)

			time.AfterFunc(20*time.Second, func() { ns.fail(nil) })
			took := trial.After(func() { open(t, ns, lan, "zk1:2181", "zk2:2181") })
			require.InDelta(t, 20, took.Seconds(), 1)
		})
	}
}

// An old session is closed at whichever address of a name a server is found.
func TestLookup_OrphanOfANameWithSeveralAddresses_IsClosed(t *testing.T) {
	t.Parallel()
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ns := &names{known: map[string][]string{"zk": {"10.0.0.1", "10.0.0.2"}}}
		lan := &network{servers: map[string]conn.DialFunc{"10.0.0.2:2181": srv.DialAs(trial.Label)}}
		c := open(t, ns, lan, "zk:2181")
		s, err := c.Session(t.Context())
		require.NoError(t, err)
		srv.Down()
		<-s.Done()
		srv.Up()
		_, err = c.Session(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, srv.Sessions(), 1)
	})
}

// The error of the function that returns the servers explains why Open did not finish. It is not the result.
func TestOpen_ContextEnds_ErrorOfTheSourceIsOnlyPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Open(ctx, &client.Config{
			Config:  session.Config{Config: lifetime.Config{SessionTimeout: trial.Timeout, Log: slog.New(slog.DiscardHandler)}},
			Servers: []string{"zk1:2181"}, Lookup: (&names{}).lookup,
			Source: &client.Source{Name: "registry", Servers: func(context.Context) ([]string, error) {
				return nil, fmt.Errorf("the registry is empty: %w", zk.ErrNoNode)
			}},
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the registry is empty")
		require.NotErrorIs(t, err, zk.ErrNoNode)
	})
}
