package zkrecipes_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
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

var ofContext = reflect.TypeFor[context.Context]()

// everything returns one value of each type whose methods take a context.
func everything(t *testing.T, c *conn.Client) []any {
	must := func(x any, err error) any {
		require.NoError(t, err)
		return x
	}
	ctx := t.Context()
	m, err := mutex.New(c, "/mutex")
	require.NoError(t, err)
	h, err := m.Lock(ctx)
	require.NoError(t, err)
	e, err := election.New(c, "/election")
	require.NoError(t, err)
	d, err := barrier.NewDouble(c, "/double", 1)
	require.NoError(t, err)
	other, err := mutex.New(c, "/other")
	require.NoError(t, err)
	g, err := group.New(c, "/group")
	require.NoError(t, err)
	services, err := discovery.New(c, "/services")
	require.NoError(t, err)
	return []any{
		c, must(c.Session(ctx)), m, h, must(multilock.LockAll(ctx, other.Part())), e, must(e.Campaign(ctx)), d,
		must(d.Enter(ctx)),
		must(rwlock.New(c, "/rwlock")), must(semaphore.New(c, "/semaphore", 1)),
		must(mutex.New(c, "/reentrant", mutex.WithReentrance())), must(barrier.New(c, "/barrier")),
		must(barrier.NewLatch(c, "/latch", 1)),
		must(node.New(c, "/node", nil)), must(value.New(c, "/value", value.Text())),
		must(value.NewCounter(c, "/counter", value.AtomicLong())),
		must(cache.Tree(c, "/")), g, must(g.Join(ctx, "me", nil)), services,
		must(services.Register(ctx, discovery.Instance{Service: "s", Address: "a", Port: 1})),
		must(shard.New(c, "/shards")), fence.New(fence.NewMemory()), fence.NewMemory(),
		must(fence.OpenFile(ctx, filepath.Join(t.TempDir(), "tokens"))),
	}
}

// withClient runs a test with a server and a client of it, in virtual time.
func withClient(t *testing.T, test func(t *testing.T, srv *zktest.Server, c *conn.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c, err := conn.Dial(t.Context(), "127.0.0.1", conn.WithDialer(srv.Dial))
		require.NoError(t, err)
		defer c.Close()
		test(t, srv, c)
	})
}

// A nil context or a nil client causes an error or a panic that names it, not a runtime error.
func TestNil_SaysWhatIsWrong(t *testing.T) {
	withClient(t, func(t *testing.T, _ *zktest.Server, c *conn.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all := everything(t, c)
		for _, it := range all {
			of := reflect.TypeOf(it)
			for i := range of.NumMethod() {
				m := of.Method(i)
				if m.Type.NumIn() < 2 || m.Type.In(1) != ofContext {
					continue
				}
				name := fmt.Sprintf("%v.%s", of, m.Name)
				saysNil(t, name+" of a nil context", m, reflect.ValueOf(it), reflect.Zero(ofContext))
				if it == any(c) {
					saysNil(t, name+" of a nil client", m, reflect.Zero(of), reflect.ValueOf(ctx))
				}
			}
		}
	})
}

// The functions that take a context say so too. TestBadInput of internal/recipe covers the constructors.
func TestNil_OfFunctions(t *testing.T) {
	withClient(t, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
		var none context.Context
		_, err := conn.Dial(none, "127.0.0.1", conn.WithDialer(srv.Dial))
		require.ErrorContains(t, err, "nil")
		_, err = fence.OpenFile(none, filepath.Join(t.TempDir(), "tokens"))
		require.ErrorContains(t, err, "nil")
		_, _, err = conn.Servers(none, "dns-srv://_zookeeper._tcp.example.invalid")
		require.ErrorContains(t, err, "nil")
		_, ok := zkrecipes.HoldFromContext(none)
		require.False(t, ok)
		m, err := mutex.New(c, "/mutex")
		require.NoError(t, err)
		all, err := multilock.LockAll(t.Context(), m.Part())
		require.NoError(t, err)
		require.Nil(t, all.Of(zkrecipes.Part{}))
	})
}

// A call with a nil context changes nothing.
func TestNil_ChangesNothing(t *testing.T) {
	withClient(t, func(t *testing.T, srv *zktest.Server, c *conn.Client) {
		var none context.Context
		g, err := group.New(c, "/group")
		require.NoError(t, err)
		services, err := discovery.New(c, "/services")
		require.NoError(t, err)
		here := discovery.Instance{Service: "s", ID: "i", Address: "a", Port: 1}
		r, err := services.Register(t.Context(), here)
		require.NoError(t, err)
		n, err := node.New(c, "/node", []byte("before"))
		require.NoError(t, err)
		require.NoError(t, n.Ready(t.Context()))
		shards, err := shard.New(c, "/shards")
		require.NoError(t, err)
		running, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- shards.Run(running, shard.List("x"), func(ctx context.Context, _ *shard.Shard) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Minute)
		before := srv.History()

		_, err = g.Join(none, "w1", nil)
		require.ErrorContains(t, err, "nil")
		_, err = services.Register(none, discovery.Instance{Service: "s", ID: "j", Address: "a", Port: 1})
		require.ErrorContains(t, err, "nil")
		require.ErrorContains(t, r.Update(none, discovery.Instance{Port: 2}), "nil")
		require.ErrorContains(t, n.Set(none, []byte("after")), "nil")
		require.ErrorContains(t, shards.Leave(none), "nil")
		for _, err := range g.Watch(none) {
			require.ErrorContains(t, err, "nil")
		}
		for _, err := range services.Watch(none, "s") {
			require.ErrorContains(t, err, "nil")
		}
		time.Sleep(time.Minute)
		require.Len(t, srv.History(), len(before))
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// saysNil calls a method with a nil receiver or context. If it panics, the panic must name what is nil and must not be
// a runtime error. The method may also ignore the nil, or reject another argument first.
func saysNil(t *testing.T, name string, m reflect.Method, receiver, ctx reflect.Value) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			assert.Contains(t, fmt.Sprint(p), "nil", name)
			assert.NotImplements(t, (*runtime.Error)(nil), p, name)
		}
	}()
	in := []reflect.Value{receiver, ctx}
	for i := 2; i < m.Type.NumIn(); i++ {
		if m.Type.IsVariadic() && i == m.Type.NumIn()-1 {
			break
		}
		in = append(in, argument(m.Type.In(i)))
	}
	for _, out := range m.Func.Call(in) {
		if locker, ok := reflect.TypeAssert[sync.Locker](out); ok {
			locker.Lock()
		}
		switch {
		case out.Kind() == reflect.Func && out.Type().CanSeq():
			for range out.Seq() { // to its end
			}
		case out.Kind() == reflect.Func && out.Type().CanSeq2():
			for range out.Seq2() { // to its end
			}
		}
	}
}

// argument returns a valid argument of the given type.
func argument(of reflect.Type) reflect.Value {
	switch {
	case of.Kind() == reflect.String:
		return reflect.ValueOf("/argument").Convert(of)
	case of.Kind() >= reflect.Int && of.Kind() <= reflect.Int64:
		return reflect.ValueOf(1).Convert(of)
	case of.Kind() == reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			for i := range of.NumOut() {
				out = append(out, reflect.Zero(of.Out(i)))
			}
			return out
		})
	case of == reflect.TypeFor[shard.Source]():
		return reflect.ValueOf(shard.List("a"))
	default:
		return reflect.Zero(of)
	}
}
