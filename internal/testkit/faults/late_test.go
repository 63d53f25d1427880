package faults_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/barrier"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/multilock"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/rwlock"
	"github.com/zkrecipes/zkrecipes/recipes/semaphore"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// bounded is an exported call that takes a context.
type bounded struct {
	name string
	// late is how long the call may outlast its context, as its documentation says.
	late time.Duration
	// open prepares the call while the server answers. The client b holds the mutex and leads the election at path, and c
	// stands behind it.
	open func(b *benched) func(ctx context.Context) error
}

// benched is what a bounded call is made on.
type benched struct {
	*testing.T
	srv    *zktest.Server
	client *conn.Client // labeled a
}

// must returns a value that was made without an error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func none[T any](_ T, err error) error { return err }

// drain iterates until the end.
func drain[T any](all func(func(T, error) bool)) (err error) {
	for _, failed := range all {
		err = errors.Join(err, failed)
	}
	return err
}

// stays is the body of a hold, which ends with its context.
func stays(ctx context.Context, _ *zkrecipes.Hold) error {
	<-ctx.Done()
	return ctx.Err()
}

func (b *benched) mutex(path string) *mutex.Mutex { return must(mutex.New(b.client, path)) }

func (b *benched) semaphore(path string) *semaphore.Semaphore {
	return must(semaphore.New(b.client, path, 1, semaphore.WithLimitNode("/limit")))
}

func (b *benched) election(path string, opts ...election.Option) *election.Election {
	return must(election.New(b.client, path, opts...))
}

func (b *benched) number() *value.Value[int64] {
	return must(value.New(b.client, "/number", value.AtomicLong()))
}

func (b *benched) session() *conn.Session { return must(b.client.Session(b.Context())) }

func (b *benched) held(path string) *zkrecipes.Hold { return must(b.mutex(path).Lock(b.Context())) }

func (b *benched) discovery() *discovery.Discovery { return must(discovery.New(b.client, "/services")) }

var instance = discovery.Instance{Service: "orders", ID: "one", Address: "10.0.0.1", Port: 1}

// boundedCalls lists the calls. Those of rwlock and of elections with the layout of a mutex share the code of mutex.
var boundedCalls = []bounded{
	{name: "Client.Get", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { _, _, err := b.client.Get(ctx, "/there"); return err }
	}},
	{name: "Client.Exists", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { _, _, err := b.client.Exists(ctx, "/there"); return err }
	}},
	{name: "Client.Children", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return none(b.client.Children(ctx, "/there")) }
	}},
	{name: "Client.Sync", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return b.client.Sync(ctx, "/there") }
	}},
	{name: "Client.Watch", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return drain(b.client.Watch(ctx, "/there")) }
	}},
	{name: "Client.States", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error {
			for range b.client.States(ctx) {
			}
			return nil
		}
	}},
	{name: "Client.Create", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return none(b.client.Create(ctx, "/new", nil, conn.Ephemeral)) }
	}},
	{name: "Client.CreateProtected", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error {
			return none(b.client.CreateProtected(ctx, "/new-", nil, conn.EphemeralSequential))
		}
	}},
	{name: "Client.CreateAll", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return b.client.CreateAll(ctx, "/new/below/there", nil) }
	}},
	{name: "Client.Set", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return none(b.client.Set(ctx, "/there", nil, 0)) }
	}},
	{name: "Client.Delete", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return b.client.Delete(ctx, "/tree/leaf", 0) }
	}},
	{name: "Client.DeleteAll", open: func(b *benched) func(context.Context) error {
		return func(ctx context.Context) error { return b.client.DeleteAll(ctx, "/tree") }
	}},
	{name: "Session.GetW", open: func(b *benched) func(context.Context) error {
		s := b.session()
		return func(ctx context.Context) error { _, _, _, err := s.GetW(ctx, "/there"); return err }
	}},
	{name: "Session.Multi", open: func(b *benched) func(context.Context) error {
		s := b.session()
		return func(ctx context.Context) error { return none(s.Multi(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	}},
	{name: "Mutex.Lock", open: func(b *benched) func(context.Context) error {
		m := b.mutex("/free")
		return func(ctx context.Context) error { return none(m.Lock(ctx)) }
	}},
	{name: "Mutex.Lock, behind another", open: func(b *benched) func(context.Context) error {
		m := b.mutex(path)
		return func(ctx context.Context) error { return none(m.Lock(ctx)) }
	}},
	{name: "Mutex.TryLock", open: func(b *benched) func(context.Context) error {
		m := b.mutex("/free")
		return func(ctx context.Context) error { return none(m.TryLock(ctx)) }
	}},
	{name: "Mutex.Do", open: func(b *benched) func(context.Context) error {
		m := b.mutex("/free")
		return func(ctx context.Context) error { return m.Do(ctx, stays) }
	}},
	{name: "Mutex.Run", open: func(b *benched) func(context.Context) error {
		m := b.mutex("/free")
		return func(ctx context.Context) error { return m.Run(ctx, stays) }
	}},
	{name: "Mutex.Queue", open: func(b *benched) func(context.Context) error {
		m := b.mutex(path)
		return func(ctx context.Context) error { return none(m.Queue(ctx)) }
	}},
	{name: "Mutex.Revoke", open: func(b *benched) func(context.Context) error {
		m := b.mutex(path)
		return m.Revoke
	}},
	{name: "RWLock.RDo", open: func(b *benched) func(context.Context) error {
		l := must(rwlock.New(b.client, "/free"))
		return func(ctx context.Context) error { return l.RDo(ctx, stays) }
	}},
	{name: "Semaphore.Acquire", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/free")
		return func(ctx context.Context) error { return none(s.Acquire(ctx, 1)) }
	}},
	{name: "Semaphore.Acquire, behind another", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/leases")
		must(s.Acquire(b.Context(), 1))
		return func(ctx context.Context) error { return none(s.Acquire(ctx, 1)) }
	}},
	{name: "Semaphore.TryAcquire", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/free")
		return func(ctx context.Context) error { return none(s.TryAcquire(ctx, 1)) }
	}},
	{name: "Semaphore.Do", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/free")
		return func(ctx context.Context) error { return s.Do(ctx, 1, stays) }
	}},
	{name: "Semaphore.Holders", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/free")
		return func(ctx context.Context) error { return none(s.Holders(ctx)) }
	}},
	{name: "Semaphore.SetLimit", open: func(b *benched) func(context.Context) error {
		s := b.semaphore("/free")
		return func(ctx context.Context) error { return s.SetLimit(ctx, 3) }
	}},
	{name: "Election.Campaign", open: func(b *benched) func(context.Context) error {
		e := b.election(path, election.WithLayout(election.Selector), election.WithStandBack())
		return func(ctx context.Context) error { return none(e.Campaign(ctx)) }
	}},
	{name: "Election.Run", open: func(b *benched) func(context.Context) error {
		e := b.election("/free")
		return func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context, t *election.Term) error { return stays(ctx, t.Hold) })
		}
	}},
	{name: "Election.Appoint", open: func(b *benched) func(context.Context) error {
		e := b.election("/led")
		term := must(e.Campaign(b.Context()))
		for _, label := range []string{"deaf", "next"} {
			other := must(election.New(bubble.Dial(b, b.srv, label), "/led"))
			go func() { _, _ = other.Campaign(b.Context()) }()
			synctest.Wait()
		}
		to := must(e.Queue(b.Context()))[2]
		return func(ctx context.Context) error { return e.Appoint(ctx, term, to) }
	}},
	{name: "Election.Watch", open: func(b *benched) func(context.Context) error {
		e := b.election("/free")
		return func(ctx context.Context) error { return drain(e.Watch(ctx)) }
	}},
	{name: "Election.Leader", open: func(b *benched) func(context.Context) error {
		e := b.election(path, election.WithLayout(election.Selector))
		return func(ctx context.Context) error { return none(e.Leader(ctx)) }
	}},
	{name: "Hold.Check", open: func(b *benched) func(context.Context) error { return b.held("/held").Check }},
	{name: "Hold.Txn", open: func(b *benched) func(context.Context) error {
		h := b.held("/held")
		return func(ctx context.Context) error { return none(h.Txn(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	}},
	{name: "Hold.Release", open: func(b *benched) func(context.Context) error { return b.held("/held").Release }},
	{name: "LockAll", open: func(b *benched) func(context.Context) error {
		first, last := b.mutex("/app/first"), b.mutex(path)
		return func(ctx context.Context) error { return none(multilock.LockAll(ctx, first.Part(), last.Part())) }
	}},
	{name: "Holds.Txn", open: func(b *benched) func(context.Context) error {
		all := must(multilock.LockAll(b.Context(), b.mutex("/1").Part(), b.mutex("/2").Part()))
		return func(ctx context.Context) error { return none(all.Txn(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	}},
	{name: "Holds.Release", open: func(b *benched) func(context.Context) error {
		return must(multilock.LockAll(b.Context(), b.mutex("/1").Part(), b.mutex("/2").Part())).Release
	}},
	{name: "Barrier.Set", open: func(b *benched) func(context.Context) error {
		return must(barrier.New(b.client, "/barrier")).Set
	}},
	{name: "Barrier.Wait", open: func(b *benched) func(context.Context) error {
		x := must(barrier.New(b.client, "/barrier"))
		require.NoError(b, x.Set(b.Context()))
		return x.Wait
	}},
	{name: "Barrier.Remove", open: func(b *benched) func(context.Context) error {
		x := must(barrier.New(b.client, "/barrier"))
		require.NoError(b, x.Set(b.Context()))
		return x.Remove
	}},
	{name: "Double.Enter", late: 100 * time.Millisecond, open: func(b *benched) func(context.Context) error {
		d := must(barrier.NewDouble(b.client, "/double", 2))
		return func(ctx context.Context) error { return none(d.Enter(ctx)) }
	}},
	{name: "Round.Leave", open: func(b *benched) func(context.Context) error {
		d := must(barrier.NewDouble(b.client, "/double", 2))
		go func() { _, _ = d.Enter(b.Context()) }()
		return must(d.Enter(b.Context())).Leave
	}},
	{name: "Latch.CountDown", open: func(b *benched) func(context.Context) error {
		l := must(barrier.NewLatch(b.client, "/latch", 2))
		return func(ctx context.Context) error { return none(l.CountDown(ctx, "")) }
	}},
	{name: "Latch.Count", open: func(b *benched) func(context.Context) error {
		l := must(barrier.NewLatch(b.client, "/latch", 2))
		return func(ctx context.Context) error { return none(l.Count(ctx)) }
	}},
	{name: "Latch.Wait", open: func(b *benched) func(context.Context) error {
		return must(barrier.NewLatch(b.client, "/latch", 2)).Wait
	}},
	{name: "Value.Set", open: func(b *benched) func(context.Context) error {
		v := b.number()
		return func(ctx context.Context) error { return none(v.Set(ctx, 1)) }
	}},
	{name: "Value.Delete", open: func(b *benched) func(context.Context) error {
		v := b.number()
		must(v.Set(b.Context(), 1))
		return v.Delete
	}},
	{name: "Value.Watch", open: func(b *benched) func(context.Context) error {
		v := b.number()
		return func(ctx context.Context) error { return drain(v.Watch(ctx)) }
	}},
	{name: "UpdateAll", open: func(b *benched) func(context.Context) error {
		v := b.number()
		return func(ctx context.Context) error {
			return value.UpdateAll(ctx, b.client, func(tx *value.Tx) error { return v.Write(tx, 1) })
		}
	}},
	{name: "Counter.Add", open: func(b *benched) func(context.Context) error {
		c := must(value.NewCounter(b.client, "/counter", value.AtomicLong()))
		return func(ctx context.Context) error { return none(c.Add(ctx, 1)) }
	}},
	{name: "Counter.Next", open: func(b *benched) func(context.Context) error {
		c := must(value.NewCounter(b.client, "/counter", value.AtomicLong()))
		return func(ctx context.Context) error { return none(c.Next(ctx, 3)) }
	}},
	{name: "Counter.Close", open: func(b *benched) func(context.Context) error {
		c := must(value.NewCounter(b.client, "/counter", value.AtomicLong()))
		must(c.Add(b.Context(), 1))
		return c.Close
	}},
	{name: "Node.Ready", open: func(b *benched) func(context.Context) error {
		n := must(node.New(b.client, "/tree/leaf", nil))
		return n.Ready
	}},
	{name: "Node.Set", open: func(b *benched) func(context.Context) error {
		n := must(node.New(b.client, "/kept", nil))
		require.NoError(b, n.Ready(b.Context()))
		return func(ctx context.Context) error { return n.Set(ctx, []byte("new")) }
	}},
	{name: "Node.Watch", open: func(b *benched) func(context.Context) error {
		n := must(node.New(b.client, "/kept", nil))
		return func(ctx context.Context) error { return drain(n.Watch(ctx)) }
	}},
	{name: "Node.Close", open: func(b *benched) func(context.Context) error {
		n := must(node.New(b.client, "/kept", nil))
		require.NoError(b, n.Ready(b.Context()))
		return n.Close
	}},
	{name: "Group.Join", open: func(b *benched) func(context.Context) error {
		g := must(group.New(b.client, "/group"))
		return func(ctx context.Context) error { return none(g.Join(ctx, "one", nil)) }
	}},
	{name: "Group.Join, of a taken id", open: func(b *benched) func(context.Context) error {
		g := must(group.New(b.client, "/group"))
		must(must(group.New(bubble.Dial(b, b.srv, "other"), "/group")).Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return none(g.Join(ctx, "one", nil, group.WithWait())) }
	}},
	{name: "Group.Members", open: func(b *benched) func(context.Context) error {
		g := must(group.New(b.client, "/group"))
		must(g.Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return none(g.Members(ctx)) }
	}},
	{name: "Group.Watch", open: func(b *benched) func(context.Context) error {
		g := must(group.New(b.client, "/group"))
		must(g.Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return drain(g.Watch(ctx, group.WithPayloads())) }
	}},
	{name: "Membership.Close", open: func(b *benched) func(context.Context) error {
		return must(must(group.New(b.client, "/group")).Join(b.Context(), "one", nil)).Close
	}},
	{name: "Discovery.Register", open: func(b *benched) func(context.Context) error {
		d := b.discovery()
		return func(ctx context.Context) error { return none(d.Register(ctx, instance)) }
	}},
	{name: "Registration.Update", open: func(b *benched) func(context.Context) error {
		r := must(b.discovery().Register(b.Context(), instance))
		return func(ctx context.Context) error {
			i := instance
			i.Port = 2
			return r.Update(ctx, i)
		}
	}},
	{name: "Registration.Close", open: func(b *benched) func(context.Context) error {
		return must(b.discovery().Register(b.Context(), instance)).Close
	}},
	{name: "Discovery.Watch", open: func(b *benched) func(context.Context) error {
		d := b.discovery()
		return func(ctx context.Context) error { return drain(d.Watch(ctx, "orders")) }
	}},
	{name: "Cache.Ready", open: func(b *benched) func(context.Context) error {
		return must(cache.Tree(b.client, "/")).Ready
	}},
	{name: "Cache.Sync", open: func(b *benched) func(context.Context) error {
		c := must(cache.Tree(b.client, "/"))
		require.NoError(b, c.Ready(b.Context()))
		return c.Sync
	}},
	{name: "Cache.Watch", open: func(b *benched) func(context.Context) error {
		c := must(cache.Tree(b.client, "/"))
		return func(ctx context.Context) error { return drain(c.Watch(ctx)) }
	}},
	{name: "Cache.Close", open: func(b *benched) func(context.Context) error {
		c := must(cache.Tree(b.client, "/"))
		require.NoError(b, c.Ready(b.Context()))
		return c.Close
	}},
	{name: "Shards.Run", open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards"))
		return func(ctx context.Context) error { return s.Run(ctx, shard.List("x", "y"), serves) }
	}},
	{name: "Shards.Run, with a return grace", late: time.Second, open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards", shard.WithID("one"), shard.WithReturnGrace(time.Minute)))
		return func(ctx context.Context) error { return s.Run(ctx, shard.List("x", "y"), serves) }
	}},
	{name: "Shards.Run, with a time to leave", late: time.Second, open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards", shard.WithLeave(time.Second)))
		return func(ctx context.Context) error { return s.Run(ctx, shard.List("x", "y"), serves) }
	}},
	{name: "Shards.SetNames", open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards"))
		return func(ctx context.Context) error { return s.SetNames(ctx, "x") }
	}},
	{name: "Shards.Leave", open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards"))
		go func() { _ = s.Run(b.Context(), shard.List("x", "y"), serves) }()
		time.Sleep(5 * time.Second)
		return s.Leave
	}},
	{name: "Shards.Owners", open: func(b *benched) func(context.Context) error {
		s := must(shard.New(b.client, "/shards"))
		return func(ctx context.Context) error { return none(s.Owners(ctx)) }
	}},
}

func serves(ctx context.Context, _ *shard.Shard) error {
	<-ctx.Done()
	return nil
}

// strikes are what befalls the client after one of its requests was served, before the answer arrives.
var strikes = map[string]func(srv *zktest.Server){
	"silent": func(srv *zktest.Server) { srv.Stall(zktest.Label("a"), zktest.Both) },
	"cut off": func(srv *zktest.Server) {
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
	},
}

// TestF44_ReturnsWithItsContext: the servers fall silent, or are lost, before each call and at each of its requests. The call returns
// when its context is done, and not a nanosecond later, unless its documentation says so.
func TestF44_ReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, call := range boundedCalls {
		t.Run(call.name, func(t *testing.T) {
			t.Parallel()
			for name, strike := range strikes {
				for step := 0; ; step++ {
					var hit bool
					var late time.Duration
					synctest.Test(t, func(t *testing.T) { hit, late = call.outlasts(t, strike, step) })
					require.LessOrEqual(t, late, call.late, "%s after %d requests", name, step)
					if !hit || t.Failed() {
						break
					}
				}
			}
		})
	}
}

// outlasts makes the call, strikes when the given number of requests was served, and returns how long the call has
// outlasted its context. It reports whether there were so many requests.
func (call bounded) outlasts(t *testing.T, strike func(*zktest.Server), step int) (hit bool, late time.Duration) {
	t.Helper()
	srv := zktest.Run(t, zktest.InMemory())
	b := &benched{t, srv, bubble.Dial(t, srv, "a")}
	for _, at := range []string{"/there", "/tree", "/tree/leaf"} {
		must(srv.Create(at, nil, zktest.Persistent))
	}
	must(must(mutex.New(bubble.Dial(t, srv, "b"), path)).Lock(t.Context()))
	do := call.open(b)
	synctest.Wait()
	rule := srv.Intercept(zktest.Match{From: zktest.Label("a"), Skip: max(0, step-1)},
		zktest.After(func(zktest.Request) { strike(srv) }))
	if step == 0 {
		strike(srv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = do(ctx) // what it returns is the business of other tests
	late = max(0, time.Since(began)-100*time.Millisecond)
	hit = step == 0 || rule.Hits() > 0
	rule.Remove()
	srv.Heal(zktest.Everyone)
	srv.Accept(zktest.Everyone)
	return hit, late
}
