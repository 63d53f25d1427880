package faults_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"
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

func (b *benched) session() *conn.Session         { return must(b.client.Session(b.Context())) }
func (b *benched) mutex(path string) *mutex.Mutex { return must(mutex.New(b.client, path)) }
func (b *benched) held() *zkrecipes.Hold          { return must(b.mutex("/held").Lock(b.Context())) }

func (b *benched) barrier() *barrier.Barrier { return must(barrier.New(b.client, "/barrier")) }

func (b *benched) double() *barrier.Double { return must(barrier.NewDouble(b.client, "/double", 2)) }

func (b *benched) latch() *barrier.Latch           { return must(barrier.NewLatch(b.client, "/latch", 2)) }
func (b *benched) group() *group.Group             { return must(group.New(b.client, "/group")) }
func (b *benched) discovery() *discovery.Discovery { return must(discovery.New(b.client, "/services")) }

func (b *benched) semaphore() *semaphore.Semaphore {
	return must(semaphore.New(b.client, "/leases", 1, semaphore.WithLimitNode("/limit")))
}

func (b *benched) election(path string, opts ...election.Option) *election.Election {
	return must(election.New(b.client, path, opts...))
}

func (b *benched) number() *value.Value[int64] {
	return must(value.New(b.client, "/number", value.AtomicLong()))
}

func (b *benched) counter() *value.Counter {
	return must(value.NewCounter(b.client, "/counter", value.AtomicLong()))
}

func (b *benched) shards(opts ...shard.Option) *shard.Shards {
	return must(shard.New(b.client, "/shards", opts...))
}

// kept is a node that exists.
func (b *benched) kept() *node.Node {
	n := must(node.New(b.client, "/kept", nil))
	require.NoError(b, n.Ready(b.Context()))
	return n
}

// cached is a cache that is ready.
func (b *benched) cached() *cache.Cache {
	c := must(cache.Tree(b.client, "/"))
	require.NoError(b, c.Ready(b.Context()))
	return c
}

var instance = discovery.Instance{Service: "orders", ID: "one", Address: "10.0.0.1", Port: 1}

// direct lists calls that need no preparation. The calls of rwlock and of elections with the layout of a mutex share
// the code of mutex.
var direct = map[string]func(ctx context.Context, b *benched) error{
	"Client.Get": func(ctx context.Context, b *benched) error {
		_, _, err := b.client.Get(ctx, "/there")
		return err
	},
	"Client.Exists": func(ctx context.Context, b *benched) error {
		_, _, err := b.client.Exists(ctx, "/there")
		return err
	},
	"Client.Children": func(ctx context.Context, b *benched) error { return none(b.client.Children(ctx, "/there")) },
	"Client.Sync":     func(ctx context.Context, b *benched) error { return b.client.Sync(ctx, "/there") },
	"Client.Watch":    func(ctx context.Context, b *benched) error { return drain(b.client.Watch(ctx, "/there")) },
	"Client.States": func(ctx context.Context, b *benched) error {
		for range b.client.States(ctx) {
		}
		return nil
	},
	"Client.Create": func(ctx context.Context, b *benched) error {
		return none(b.client.Create(ctx, "/new", nil, conn.Ephemeral))
	},
	"Client.CreateProtected": func(ctx context.Context, b *benched) error {
		return none(b.client.CreateProtected(ctx, "/new-", nil, conn.EphemeralSequential))
	},
	"Client.CreateAll": func(ctx context.Context, b *benched) error {
		return b.client.CreateAll(ctx, "/new/below/there", nil)
	},
	"Client.Set":       func(ctx context.Context, b *benched) error { return none(b.client.Set(ctx, "/there", nil, 0)) },
	"Client.Delete":    func(ctx context.Context, b *benched) error { return b.client.Delete(ctx, "/tree/leaf", 0) },
	"Client.DeleteAll": func(ctx context.Context, b *benched) error { return b.client.DeleteAll(ctx, "/tree") },

	"Mutex.Lock":                 func(ctx context.Context, b *benched) error { return none(b.mutex("/free").Lock(ctx)) },
	"Mutex.Lock, behind another": func(ctx context.Context, b *benched) error { return none(b.mutex(path).Lock(ctx)) },
	"Mutex.TryLock": func(ctx context.Context, b *benched) error {
		return none(b.mutex("/free").TryLock(ctx))
	},
	"Mutex.Do":     func(ctx context.Context, b *benched) error { return b.mutex("/free").Do(ctx, stays) },
	"Mutex.Run":    func(ctx context.Context, b *benched) error { return b.mutex("/free").Run(ctx, stays) },
	"Mutex.Queue":  func(ctx context.Context, b *benched) error { return none(b.mutex(path).Queue(ctx)) },
	"Mutex.Revoke": func(ctx context.Context, b *benched) error { return b.mutex(path).Revoke(ctx) },
	"RWLock.RDo": func(ctx context.Context, b *benched) error {
		return must(rwlock.New(b.client, "/free")).RDo(ctx, stays)
	},
	"Semaphore.Acquire":    func(ctx context.Context, b *benched) error { return none(b.semaphore().Acquire(ctx, 1)) },
	"Semaphore.TryAcquire": func(ctx context.Context, b *benched) error { return none(b.semaphore().TryAcquire(ctx, 1)) },
	"Semaphore.Do":         func(ctx context.Context, b *benched) error { return b.semaphore().Do(ctx, 1, stays) },
	"Semaphore.Holders":    func(ctx context.Context, b *benched) error { return none(b.semaphore().Holders(ctx)) },
	"Semaphore.SetLimit":   func(ctx context.Context, b *benched) error { return b.semaphore().SetLimit(ctx, 3) },
	"Election.Campaign": func(ctx context.Context, b *benched) error {
		return none(b.election(path, election.WithLayout(election.Selector), election.WithStandBack()).Campaign(ctx))
	},
	"Election.Run": func(ctx context.Context, b *benched) error {
		return b.election("/free").Run(ctx, func(ctx context.Context, t *election.Term) error { return stays(ctx, t.Hold) })
	},
	"Election.Watch": func(ctx context.Context, b *benched) error { return drain(b.election("/free").Watch(ctx)) },
	"Election.Leader": func(ctx context.Context, b *benched) error {
		return none(b.election(path, election.WithLayout(election.Selector)).Leader(ctx))
	},
	"LockAll": func(ctx context.Context, b *benched) error {
		return none(multilock.LockAll(ctx, b.mutex("/app/first").Part(), b.mutex(path).Part()))
	},

	"Barrier.Set":     func(ctx context.Context, b *benched) error { return b.barrier().Set(ctx) },
	"Double.Enter":    func(ctx context.Context, b *benched) error { return none(b.double().Enter(ctx)) },
	"Latch.CountDown": func(ctx context.Context, b *benched) error { return none(b.latch().CountDown(ctx, "")) },
	"Latch.Count":     func(ctx context.Context, b *benched) error { return none(b.latch().Count(ctx)) },
	"Latch.Wait":      func(ctx context.Context, b *benched) error { return b.latch().Wait(ctx) },

	"Value.Get":   func(ctx context.Context, b *benched) error { _, _, err := b.number().Get(ctx); return err },
	"Value.Set":   func(ctx context.Context, b *benched) error { return none(b.number().Set(ctx, 1)) },
	"Value.Watch": func(ctx context.Context, b *benched) error { return drain(b.number().Watch(ctx)) },
	"UpdateAll": func(ctx context.Context, b *benched) error {
		return value.UpdateAll(ctx, b.client, func(tx *value.Tx) error { return b.number().Write(tx, 1) })
	},
	"Counter.Add":  func(ctx context.Context, b *benched) error { return none(b.counter().Add(ctx, 1)) },
	"Counter.Next": func(ctx context.Context, b *benched) error { return none(b.counter().Next(ctx, 3)) },

	"Group.Join": func(ctx context.Context, b *benched) error { return none(b.group().Join(ctx, "one", nil)) },
	"Discovery.Register": func(ctx context.Context, b *benched) error {
		return none(b.discovery().Register(ctx, instance))
	},
	"Discovery.Watch": func(ctx context.Context, b *benched) error { return drain(b.discovery().Watch(ctx, "orders")) },
	"Shards.Run": func(ctx context.Context, b *benched) error {
		return b.shards().Run(ctx, shard.List("x", "y"), serves)
	},
	"Shards.Run, with a return grace": func(ctx context.Context, b *benched) error {
		s := b.shards(shard.WithID("one"), shard.WithReturnGrace(time.Minute))
		return s.Run(ctx, shard.List("x", "y"), serves)
	},
	"Shards.Run, with a time to leave": func(ctx context.Context, b *benched) error {
		return b.shards(shard.WithLeave(time.Second)).Run(ctx, shard.List("x", "y"), serves)
	},
	"Shards.SetNames": func(ctx context.Context, b *benched) error { return b.shards().SetNames(ctx, "x") },
	"Shards.Owners":   func(ctx context.Context, b *benched) error { return none(b.shards().Owners(ctx)) },
}

// prepared lists calls that need something done while the server answers. The client b holds the mutex at path.
var prepared = map[string]func(b *benched) func(context.Context) error{
	"Session.GetW": func(b *benched) func(context.Context) error {
		s := b.session()
		return func(ctx context.Context) error { _, _, _, err := s.GetW(ctx, "/there"); return err }
	},
	"Session.Multi": func(b *benched) func(context.Context) error {
		s := b.session()
		return func(ctx context.Context) error { return none(s.Multi(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	},
	"Semaphore.Acquire, behind another": func(b *benched) func(context.Context) error {
		s := b.semaphore()
		must(s.Acquire(b.Context(), 1))
		return func(ctx context.Context) error { return none(s.Acquire(ctx, 1)) }
	},
	"Election.Appoint": func(b *benched) func(context.Context) error {
		e := b.election("/led")
		term := must(e.Campaign(b.Context()))
		for _, label := range []string{"deaf", "next"} {
			other := must(election.New(bubble.Dial(b, b.srv, label), "/led"))
			go func() { _, _ = other.Campaign(b.Context()) }()
			synctest.Wait()
		}
		to := must(e.Queue(b.Context()))[2]
		return func(ctx context.Context) error { return e.Appoint(ctx, term, to) }
	},
	"Hold.Check": func(b *benched) func(context.Context) error { return b.held().Check },
	"Hold.Txn": func(b *benched) func(context.Context) error {
		h := b.held()
		return func(ctx context.Context) error { return none(h.Txn(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	},
	"Hold.Release": func(b *benched) func(context.Context) error { return b.held().Release },
	"Holds.Txn": func(b *benched) func(context.Context) error {
		all := must(multilock.LockAll(b.Context(), b.mutex("/1").Part(), b.mutex("/2").Part()))
		return func(ctx context.Context) error { return none(all.Txn(ctx, zkrecipes.OpSet("/there", nil, -1))) }
	},
	"Holds.Release": func(b *benched) func(context.Context) error {
		return must(multilock.LockAll(b.Context(), b.mutex("/1").Part(), b.mutex("/2").Part())).Release
	},
	"Barrier.Wait": func(b *benched) func(context.Context) error {
		x := b.barrier()
		require.NoError(b, x.Set(b.Context()))
		return x.Wait
	},
	"Barrier.Remove": func(b *benched) func(context.Context) error {
		x := b.barrier()
		require.NoError(b, x.Set(b.Context()))
		return x.Remove
	},
	"Round.Leave": func(b *benched) func(context.Context) error {
		d := b.double()
		go func() { _, _ = d.Enter(b.Context()) }()
		return must(d.Enter(b.Context())).Leave
	},
	"Value.Delete": func(b *benched) func(context.Context) error {
		v := b.number()
		must(v.Set(b.Context(), 1))
		return v.Delete
	},
	"Counter.Close": func(b *benched) func(context.Context) error {
		c := b.counter()
		must(c.Add(b.Context(), 1))
		return c.Close
	},
	"Node.Ready": func(b *benched) func(context.Context) error {
		return must(node.New(b.client, "/tree/leaf", nil)).Ready
	},
	"Node.Set": func(b *benched) func(context.Context) error {
		n := b.kept()
		return func(ctx context.Context) error { return n.Set(ctx, []byte("new")) }
	},
	"Node.Watch": func(b *benched) func(context.Context) error {
		n := b.kept()
		return func(ctx context.Context) error { return drain(n.Watch(ctx)) }
	},
	"Node.Close": func(b *benched) func(context.Context) error { return b.kept().Close },
	"Group.Join, of a taken id": func(b *benched) func(context.Context) error {
		g := b.group()
		must(must(group.New(bubble.Dial(b, b.srv, "other"), "/group")).Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return none(g.Join(ctx, "one", nil, group.WithWait())) }
	},
	"Group.Members": func(b *benched) func(context.Context) error {
		g := b.group()
		must(g.Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return none(g.Members(ctx)) }
	},
	"Group.Watch": func(b *benched) func(context.Context) error {
		g := b.group()
		must(g.Join(b.Context(), "one", nil))
		return func(ctx context.Context) error { return drain(g.Watch(ctx, group.WithPayloads())) }
	},
	"Membership.Close": func(b *benched) func(context.Context) error {
		return must(b.group().Join(b.Context(), "one", nil)).Close
	},
	"Registration.Update": func(b *benched) func(context.Context) error {
		r := must(b.discovery().Register(b.Context(), instance))
		changed := instance
		changed.Port = 2
		return func(ctx context.Context) error { return r.Update(ctx, changed) }
	},
	"Registration.Close": func(b *benched) func(context.Context) error {
		return must(b.discovery().Register(b.Context(), instance)).Close
	},
	"Cache.Ready": func(b *benched) func(context.Context) error { return must(cache.Tree(b.client, "/")).Ready },
	"Cache.Sync":  func(b *benched) func(context.Context) error { return b.cached().Sync },
	"Cache.Watch": func(b *benched) func(context.Context) error {
		c := must(cache.Tree(b.client, "/"))
		return func(ctx context.Context) error { return drain(c.Watch(ctx)) }
	},
	"Cache.Close": func(b *benched) func(context.Context) error { return b.cached().Close },
	"Shards.Leave": func(b *benched) func(context.Context) error {
		s := b.shards()
		go func() { _ = s.Run(b.Context(), shard.List("x", "y"), serves) }()
		time.Sleep(5 * time.Second)
		return s.Leave
	},
}

// mayOutlast is how long a call may outlast its context, as its documentation says.
var mayOutlast = map[string]time.Duration{
	"Double.Enter":                     100 * time.Millisecond,
	"Shards.Run, with a return grace":  time.Second,
	"Shards.Run, with a time to leave": time.Second,
}

func serves(ctx context.Context, _ *shard.Shard) error {
	<-ctx.Done()
	return nil
}

// strikes are what befalls the client after one of its requests was served, before the answer arrives.
var strikes = map[string]func(srv *zktest.Server){
	"silent": func(srv *zktest.Server) { srv.Stall(zktest.Label("a"), zktest.Both) },
	"cut off": func(srv *zktest.Server) {
		trial.CutOff(srv, zktest.Label("a"))
	},
}

// TestF44_ReturnsWithItsContext: the servers fall silent, or are lost, before each call and at each of its requests.
// The call returns when its context is done, and not a nanosecond later, unless its documentation says so. The cause of
// the context may be the error of another call, as with an errgroup. This call's error must not match it, because a
// caller would conclude, for example, that a value is missing.
func TestF44_ReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	calls := maps.Clone(prepared)
	for name, call := range direct {
		calls[name] = func(b *benched) func(context.Context) error {
			return func(ctx context.Context) error { return call(ctx, b) }
		}
	}
	for name, open := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, strike := range strikes {
				for step := 0; ; step++ {
					var hit bool
					var late time.Duration
					synctest.Test(t, func(t *testing.T) { hit, late = outlasts(t, open, strike, step) })
					require.LessOrEqual(t, late, mayOutlast[name], "%s after %d requests", how, step)
					if !hit || t.Failed() {
						break
					}
				}
			}
		})
	}
}

// outlasts makes a call, strikes when the given number of requests was served, and returns how long the call has
// outlasted its context. It reports whether there were so many requests.
func outlasts(
	t *testing.T, open func(*benched) func(context.Context) error, strike func(*zktest.Server), step int,
) (hit bool, late time.Duration) {
	t.Helper()
	srv := zktest.Run(t, zktest.InMemory())
	b := &benched{t, srv, bubble.Dial(t, srv, "a")}
	for _, at := range []string{"/there", "/tree", "/tree/leaf"} {
		must(srv.Create(at, nil, zktest.Persistent))
	}
	must(must(mutex.New(bubble.Dial(t, srv, "b"), path)).Lock(t.Context()))
	do := open(b)
	synctest.Wait()
	rule := srv.Intercept(zktest.Match{From: zktest.Label("a"), Skip: max(0, step-1)},
		zktest.After(func(zktest.Request) { strike(srv) }))
	if step == 0 {
		strike(srv)
	}
	other := &zkrecipes.OpError{Op: "get", Path: "/other", Err: zk.ErrNoNode}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, other)
	defer cancel()
	began := time.Now()
	require.NotErrorIs(t, do(ctx), zk.ErrNoNode)
	late = max(0, time.Since(began)-100*time.Millisecond)
	hit = step == 0 || rule.Hits() > 0
	rule.Remove()
	srv.Heal(zktest.Everyone)
	srv.Accept(zktest.Everyone)
	return hit, late
}
