// Package servers_test changes real servers while clients hold locks and leaderships and follow caches: servers are
// replaced by others, and servers are restarted one after another.
package servers_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/internal/testkit/names"
	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

const (
	tick  = time.Second // servers grant a client's default session timeout
	limit = 2 * time.Minute
)

var silent = conn.WithLogger(slog.New(slog.DiscardHandler))

// figures count what the clients of a test did.
type figures struct {
	requests, connects atomic.Int64

	mu      sync.Mutex
	longest time.Duration // time that a client was without a server
}

// report logs what the clients did since they started.
func (f *figures) report(t *testing.T, apps []*app) {
	t.Helper()
	t.Logf(
		"%d holds lost, %d connections lost, the longest time without a server %v, %d requests of %d clients, without pings",
		lost(apps), f.connects.Load(), f.longest.Round(time.Millisecond), f.requests.Load(), len(apps))
}

func (f *figures) tracer() *zkrecipes.Tracer {
	return &zkrecipes.Tracer{
		Request: func(context.Context, zkrecipes.Request) { f.requests.Add(1) },
		State: func(c zkrecipes.StateChange) {
			if c.To != zkrecipes.Connected {
				return
			}
			f.connects.Add(1)
			f.mu.Lock()
			defer f.mu.Unlock()
			if c.From == zkrecipes.Suspended {
				f.longest = max(f.longest, c.Lasted)
			}
		},
	}
}

// app is a client with a lock of its own, a leadership of its own, a place among the candidates of a shared election,
// and a cache.
type app struct {
	*conn.Client
	name       string
	lock       *zkrecipes.Hold
	own        *election.Term
	candidates *election.Election
	elected    chan *election.Term // in the shared election
	config     *cache.Cache
}

// start starts n apps one after another, so that the order of the candidates is known.
func start(t *testing.T, n int, servers string, f *figures, opts ...conn.Option) (apps []*app) {
	t.Helper()
	ctx := within(t)
	for i := range n {
		a := &app{name: fmt.Sprintf("app%02d", i), elected: make(chan *election.Term, 1)}
		client, err := conn.Dial(ctx, servers,
			append(opts, conn.WithIdentity(a.name), conn.WithTracer(f.tracer()), silent)...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		a.Client = client
		if i == 0 {
			require.NoError(t, client.CreateAll(ctx, "/config/limit", []byte("0")))
		}
		m, err := mutex.New(client, "/lock/"+a.name)
		require.NoError(t, err)
		a.lock, err = m.Lock(ctx)
		require.NoError(t, err)
		e, err := election.New(client, "/leader/"+a.name)
		require.NoError(t, err)
		a.own, err = e.Campaign(ctx)
		require.NoError(t, err)
		a.config, err = cache.Tree(client, "/config")
		require.NoError(t, err)
		require.NoError(t, a.config.Ready(ctx))
		a.candidates, err = election.New(client, "/leader/all")
		require.NoError(t, err)
		go func() {
			if term, err := a.candidates.Campaign(t.Context()); err == nil {
				a.elected <- term
			}
		}()
		await(t, "a candidate", func() bool { queue, err := a.candidates.Queue(ctx); return err == nil && len(queue) == i+1 })
		apps = append(apps, a)
	}
	f.requests.Store(0)
	f.connects.Store(0)
	return apps
}

// lost counts the locks and leaderships that have ended.
func lost(apps []*app) (n int) {
	for _, a := range apps {
		for _, hold := range []*zkrecipes.Hold{a.lock, a.own.Hold} {
			if hold.Err() != nil {
				n++
			}
		}
	}
	return n
}

// verify requires that no hold was lost, that all caches follow, and that the candidates have kept their places: each
// leads in turn.
func verify(t *testing.T, apps []*app) {
	t.Helper()
	ctx := within(t)
	require.Zero(t, lost(apps), "holds lost")
	_, err := apps[0].Set(ctx, "/config/limit", []byte(t.Name()), -1)
	require.NoError(t, err)
	for _, a := range apps {
		require.NoError(t, a.config.Sync(ctx))
		entry, _ := a.config.Get("/config/limit")
		require.Equal(t, t.Name(), string(entry.Data))
	}
	for i, a := range apps {
		select {
		case term := <-a.elected:
			require.NoError(t, term.Err())
			for _, other := range apps[i+1:] {
				require.Empty(t, other.elected, "%s overtakes %s", other.name, a.name)
			}
			require.NoError(t, term.Release(ctx))
		case <-ctx.Done():
			t.Fatalf("%s does not lead", a.name)
		}
		require.NoError(t, a.lock.Release(ctx))
		require.NoError(t, a.own.Release(ctx))
	}
}

// on counts the clients that are connected to each server.
func on(apps []*app, servers []*zkserver.Server) []int {
	counts := make([]int, len(servers))
	for _, a := range apps {
		at := a.Status().Server
		for i, s := range servers {
			host, port, _ := net.SplitHostPort(s.Addr())
			if at == s.Addr() || strings.HasSuffix(at, ":"+port+" ("+host+")") {
				counts[i]++
			}
		}
	}
	return counts
}

func sum(counts []int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// await waits for a condition, and returns how long that took.
func await(t *testing.T, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		require.Less(t, time.Since(began), limit, what)
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began).Round(time.Millisecond)
}

// directory publishes the servers: told is called with all servers that an operator counts on.
type directory struct {
	connect string
	options []conn.Option
	told    func(servers []*zkserver.Server)
}

const service = "_zookeeper._tcp.example.com"

// directories are the ways in which a client can learn of changing servers.
var directories = map[string]func(t *testing.T, servers []*zkserver.Server) directory{
	"ensemble": func(_ *testing.T, servers []*zkserver.Server) directory {
		return directory{
			strings.Join(addresses(servers), ","),
			[]conn.Option{conn.WithEnsembleTracking()},
			func([]*zkserver.Server) {},
		}
	},
	"function": func(*testing.T, []*zkserver.Server) directory {
		var list atomic.Pointer[[]string]
		ask := func(context.Context) ([]string, error) { return *list.Load(), nil }
		return directory{"zk.example.com", []conn.Option{conn.WithServers(ask)}, func(servers []*zkserver.Server) {
			now := addresses(servers)
			list.Store(&now)
		}}
	},
	"DNS": func(t *testing.T, _ []*zkserver.Server) directory {
		ns := names.Use(t)
		return directory{"dns-srv://" + service, nil, func(servers []*zkserver.Server) {
			var records []net.SRV
			for _, s := range servers {
				host, port, _ := net.SplitHostPort(s.Addr())
				name := "zk-" + strings.ReplaceAll(host, ".", "-") + ".example.com"
				ns.Set(name, host)
				number, _ := net.LookupPort("tcp", port)
				records = append(records, net.SRV{Target: name, Port: uint16(number)})
			}
			ns.SetServices(service, records...)
		}}
	},
}

func addresses(servers []*zkserver.Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}

// Three servers are replaced by three others, one by one and without a pause: a new one joins the ensemble, and an old
// one leaves it and is stopped. All clients end up on the new ones, and nothing is lost.
func TestReplaced_OneByOne_NothingIsLost(t *testing.T) {
	need.Asked(t, "six servers")
	for how, open := range directories {
		t.Run(how, func(t *testing.T) {
			e := zkserver.StartEnsemble(t, 3, zkserver.WithReconfig(), zkserver.WithTickTime(tick))
			servers := slices.Clone(e.Servers)
			d := open(t, servers)
			d.told(servers)
			f := &figures{}
			apps := start(t, 8, d.connect, f, d.options...)
			began := time.Now()
			for _, old := range servers[:3] {
				joined, err := e.Join()
				require.NoError(t, err)
				servers = append(servers[1:], joined)
				d.told(servers)
				require.NoError(t, e.Leave(old))
				require.NoError(t, old.Stop())
				took := await(t, "clients on the servers that are left", func() bool { return sum(on(apps, servers)) == len(apps) })
				t.Logf("%v: one server replaced, all clients are on the others %v after it stopped: %v",
					time.Since(began).Round(time.Millisecond), took, on(apps, servers))
			}
			f.report(t, apps)
			verify(t, apps)
		})
	}
}

// Three servers are restarted one after another, after which the last has no clients. With WithRebalance all have some
// in the end, and nothing is lost.
func TestRebalance_RollingRestart_AllServersHaveClients(t *testing.T) {
	need.Asked(t, "three servers, for a minute")
	const rebalance = 30 * time.Second
	e := zkserver.StartEnsemble(t, 3, zkserver.WithTickTime(tick))
	f := &figures{}
	apps := start(t, 30, e.Addr(), f, conn.WithRebalance(rebalance))
	t.Log("clients of each server:", on(apps, e.Servers))
	for _, s := range e.Servers {
		require.NoError(t, s.Restart())
		await(t, "clients on the servers", func() bool { return sum(on(apps, e.Servers)) == len(apps) })
	}
	settle(t, "three restarts", apps, e.Servers, rebalance)
	f.report(t, apps)
	require.NotContains(t, on(apps, e.Servers), 0, "by chance once in 60,000 runs")
	verify(t, apps)
}

// Two servers join three, and then two leave, the leader first, but keep serving. The clients move meanwhile, so the
// servers that have left have no clients when they are stopped.
func TestRebalance_EnsembleChanges_ServersThatLeaveHaveNoClients(t *testing.T) {
	need.Asked(t, "five servers, for a minute")
	const rebalance = 15 * time.Second
	e := zkserver.StartEnsemble(t, 3, zkserver.WithReconfig(), zkserver.WithTickTime(tick))
	f := &figures{}
	apps := start(t, 30, e.Addr(), f, conn.WithEnsembleTracking(), conn.WithRebalance(rebalance))
	t.Log("clients of each server:", on(apps, e.Servers))
	for range 2 {
		_, err := e.Join()
		require.NoError(t, err)
	}
	settle(t, "two servers have joined", apps, e.Servers, rebalance)
	leader, err := e.Leader()
	require.NoError(t, err)
	leaving := []*zkserver.Server{
		leader,
		e.Servers[slices.IndexFunc(e.Servers, func(s *zkserver.Server) bool { return s != leader })],
	}
	for _, s := range leaving {
		require.NoError(t, e.Leave(s))
	}
	settle(t, "two servers have left", apps, e.Servers, rebalance)
	require.Zero(t, sum(on(apps, leaving)))
	f.report(t, apps)
	verify(t, apps)
}

// settle waits until the clients that move within the given time have done so, and prints where they were and are.
func settle(t *testing.T, after string, apps []*app, servers []*zkserver.Server, within time.Duration) {
	t.Helper()
	began, before := time.Now(), on(apps, servers)
	now, changed := before, began
	for time.Since(began) < within+5*time.Second {
		if counts := on(apps, servers); sum(counts) == len(apps) && !slices.Equal(counts, now) {
			now, changed = counts, time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: %v, and %v later %v", after, before, changed.Sub(began).Round(time.Millisecond), now)
}
