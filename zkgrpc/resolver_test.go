package zkgrpc_test

import (
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/resolver"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const root = "/services"

// world is a ZooKeeper server in virtual time, with the client "server" for the servers of the service, and "caller"
// for its callers.
type world struct {
	srv            *zktest.Server
	server, caller *conn.Client
	log            *bubble.Buffer // of resolvers
	*network                      // of the service
}

func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		f(t, &world{srv, bubble.Dial(t, srv, "server"), bubble.Dial(t, srv, "caller"), &bubble.Buffer{}, &network{}})
	})
}

func open(t *testing.T, c *conn.Client) *discovery.Discovery {
	t.Helper()
	d, err := discovery.New(c, root)
	require.NoError(t, err)
	return d
}

func (w *world) builder(t *testing.T, c *conn.Client, opts ...zkgrpc.Option) resolver.Builder {
	t.Helper()
	log := slog.New(slog.NewTextHandler(w.log, nil))
	b, err := zkgrpc.NewResolver(open(t, c), append([]zkgrpc.Option{zkgrpc.WithLogger(log)}, opts...)...)
	require.NoError(t, err)
	return b
}

// orders returns an instance of the service orders.
func orders(id string, port int, metadata ...string) discovery.Instance {
	i := discovery.Instance{Service: "orders", ID: id, Address: "10.0.0.7", Port: port}
	for n := 0; n < len(metadata); n += 2 {
		if i.Metadata == nil {
			i.Metadata = map[string]string{}
		}
		i.Metadata[metadata[n]] = metadata[n+1]
	}
	return i
}

func (w *world) register(t *testing.T, i discovery.Instance) *discovery.Registration {
	t.Helper()
	r, err := open(t, w.server).Register(t.Context(), i)
	require.NoError(t, err)
	return r
}

// channel records what a resolver passes to its channel.
type channel struct {
	resolver.ClientConn
	resolver resolver.Resolver

	mu     sync.Mutex
	states []resolver.State
	errs   []error
}

func (c *channel) UpdateState(s resolver.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, s)
	return errors.New("want another state")
}

func (c *channel) ReportError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// target is zk:///orders.
var target = resolver.Target{URL: url.URL{Scheme: zkgrpc.Scheme, Path: "/orders"}}

// resolve starts a resolver, and closes it at the end of the test. The bubble would detect a leaked goroutine.
func resolve(t *testing.T, b resolver.Builder) *channel {
	t.Helper()
	c := &channel{}
	var err error
	c.resolver, err = b.Build(target, c, resolver.BuildOptions{})
	require.NoError(t, err)
	t.Cleanup(c.resolver.Close)
	return c
}

// told returns the addresses of all states, once all goroutines are idle.
func (c *channel) told() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, s := range c.states {
		var addresses []string
		for n, e := range s.Endpoints {
			addresses = append(addresses, strings.TrimPrefix(e.Addresses[0].Addr, "10.0.0.7:"))
			if s.Addresses[n].Addr != e.Addresses[0].Addr {
				panic("endpoints and addresses differ")
			}
		}
		all = append(all, strings.Join(addresses, " "))
	}
	return all
}

func (c *channel) errors() []error {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.errs)
}

func TestResolver_FollowsTheService(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		c := resolve(t, w.builder(t, w.caller))
		require.Empty(t, c.told(), "the service does not exist yet")
		require.Len(t, c.errors(), 1)
		require.ErrorContains(t, c.errors()[0], "service orders below /services has no instance that can be called")
		a := w.register(t, orders("a", 1, "zone", "x"))
		require.Equal(t, []string{"1"}, c.told())
		b := w.register(t, orders("b", 2))
		require.Equal(t, []string{"1", "1 2"}, c.told())

		out := a.Instance()
		out.Disabled = true
		require.ErrorContains(t, a.Update(t.Context(), out), "disabled",
			"Curator's format has no such field in what it writes")
		require.NoError(t, a.Close(t.Context()))
		require.Equal(t, []string{"1", "1 2", "2"}, c.told())
		require.NoError(t, b.Close(t.Context()))
		require.Equal(t, []string{"1", "1 2", "2", ""}, c.told())
		require.Len(t, c.errors(), 1)
		require.Equal(t, 2, strings.Count(w.log.String(), "service has no instance that can be called"))
	})
}

func TestResolver_AttributesForBalancers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		r := w.register(t, orders("a", 1, "weight", "3", "zone", "x"))
		c := resolve(t, w.builder(t, w.caller))
		require.Len(t, c.told(), 1)
		first := c.states[0]
		i, ok := zkgrpc.FromEndpoint(first.Endpoints[0])
		require.True(t, ok)
		require.Equal(t, "a", i.ID)
		require.Equal(t, uint32(3), zkgrpc.Weight(i, 1))
		require.Equal(t, "x", zkgrpc.Zone(i))
		same, ok := zkgrpc.FromAddress(first.Addresses[0])
		require.True(t, ok)
		require.Equal(t, i, same)

		heavier := r.Instance()
		heavier.Metadata["weight"] = "5"
		require.NoError(t, r.Update(t.Context(), heavier))
		require.Equal(t, []string{"1", "1"}, c.told(), "balancers hear of the weight")
		second := c.states[1]
		i, _ = zkgrpc.FromEndpoint(second.Endpoints[0])
		require.Equal(t, uint32(5), zkgrpc.Weight(i, 1))

		again := resolve(t, w.builder(t, w.caller))
		require.Len(t, again.told(), 1)
		require.True(t, second.Endpoints[0].Attributes.Equal(again.states[0].Endpoints[0].Attributes))
		require.False(t, first.Endpoints[0].Attributes.Equal(second.Endpoints[0].Attributes))
		connections := resolver.NewAddressMapV2[bool]()
		connections.Set(first.Addresses[0], true)
		_, ok = connections.Get(second.Addresses[0])
		require.True(t, ok, "a weight that changes costs no connection")

		require.NoError(t, r.Update(t.Context(), heavier))
		require.Len(t, c.told(), 2, "the same again is told to no balancer")
	})
}

func TestWeight(t *testing.T) {
	for text, want := range map[string]uint32{"": 7, "0": 0, "12": 12, "-1": 7, "1.5": 7, "x": 7} {
		require.Equal(t, want, zkgrpc.Weight(orders("a", 1, "weight", text), 7), text)
	}
	require.Equal(t, uint32(7), zkgrpc.Weight(orders("a", 1), 7))
	_, ok := zkgrpc.FromEndpoint(resolver.Endpoint{})
	require.False(t, ok, "an endpoint of another resolver")
	_, ok = zkgrpc.FromAddress(resolver.Address{})
	require.False(t, ok)
}

func TestResolver_KeepsTheAddressesWhileDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(t, orders("a", 1))
		c := resolve(t, w.builder(t, w.caller))
		require.Equal(t, []string{"1"}, c.told())

		w.srv.Refuse(zktest.Label("caller"))
		w.srv.Cut(zktest.Label("caller"))
		c.resolver.ResolveNow(resolver.ResolveNowOptions{})
		time.Sleep(5 * bubble.Timeout)
		require.Equal(t, []string{"1"}, c.told(), "also without a session")
		require.Empty(t, c.errors())
		require.Equal(t, 1, strings.Count(w.log.String(), "no answer from zookeeper, the channel keeps its addresses"), w.log)
		require.Contains(t, w.log.String(), "service=orders base=/services addresses=1 asOf=")
		require.NotContains(t, w.log.String(), "answers again")

		w.register(t, orders("b", 2))
		w.srv.Accept(zktest.Label("caller"))
		time.Sleep(bubble.Timeout)
		require.Equal(t, []string{"1", "1 2"}, c.told())
		require.Equal(t, 1, strings.Count(w.log.String(), "zookeeper answers again"), w.log)
	})
}

// The caller's connection is lost and restored, and nothing has changed in the meantime.
func TestResolver_ReconnectTellsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(t, orders("a", 1))
		c := resolve(t, w.builder(t, w.caller))
		require.Equal(t, []string{"1"}, c.told())
		for range 3 {
			w.srv.Cut(zktest.Label("caller"))
			time.Sleep(bubble.Timeout)
		}
		require.Equal(t, []string{"1"}, c.told())
		require.Equal(t, strings.Count(w.log.String(), "no answer from zookeeper"),
			strings.Count(w.log.String(), "zookeeper answers again"), w.log)
	})
}

func TestResolver_NothingIsKnownYet(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(t, orders("a", 1))
		w.srv.Refuse(zktest.Label("late"))
		late, err := conn.New(w.srv.Addr(), conn.WithDialer(w.srv.DialAs("late")), bubble.Silent)
		require.NoError(t, err)
		defer func() { _ = late.Close() }() // never fails
		c := resolve(t, w.builder(t, late))
		time.Sleep(5 * time.Second)
		require.Empty(t, c.errors(), "calls wait")
		time.Sleep(time.Second)
		require.Len(t, c.errors(), 1)
		require.ErrorContains(t, c.errors()[0], "zkgrpc: follow service orders below /services: ")
		require.ErrorContains(t, c.errors()[0], "refused", "it says what is in the way")
		time.Sleep(time.Minute)
		require.Empty(t, c.told())
		require.Greater(t, len(c.errors()), 5)
		require.Equal(t, 1, strings.Count(w.log.String(), "level=WARN"), "once for the whole outage: %v", w.log)
		require.Contains(t, w.log.String(), "no answer from zookeeper, the channel keeps its addresses")

		w.srv.Accept(zktest.Label("late"))
		require.NoError(t, late.Ready(t.Context()))
		time.Sleep(time.Second)
		require.Equal(t, []string{"1"}, c.told())
		require.Equal(t, 1, strings.Count(w.log.String(), "zookeeper answers again"), w.log)
	})
}

func TestResolver_MayNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(t, orders("a", 1))
		forbidden := w.srv.Intercept(zktest.Match{From: zktest.Label("caller"), Path: root + "/orders", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		c := resolve(t, w.builder(t, w.caller))
		require.Len(t, c.errors(), 1)
		require.ErrorIs(t, c.errors()[0], zk.ErrNoAuth)

		for range 100 { // like gRPC when connections fail
			c.resolver.ResolveNow(resolver.ResolveNowOptions{})
		}
		time.Sleep(time.Second)
		require.Len(t, c.errors(), 2)
		time.Sleep(29 * time.Second)
		require.Len(t, c.errors(), 2)
		time.Sleep(time.Second)
		require.Len(t, c.errors(), 3)
		const warning = "cannot follow a service, the channel keeps its addresses"
		require.Equal(t, 1, strings.Count(w.log.String(), warning), "of several attempts")

		forbidden.Remove()
		time.Sleep(2 * time.Second)
		require.Empty(t, c.told())
		c.resolver.ResolveNow(resolver.ResolveNowOptions{})
		require.Equal(t, []string{"1"}, c.told())

		w.srv.Intercept(zktest.Match{From: zktest.Label("caller"), Path: root + "/orders", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		w.register(t, orders("b", 2))
		require.Len(t, c.errors(), 4)
		require.Equal(t, 2, strings.Count(w.log.String(), warning), "it could follow in the meantime")
	})
}

func TestResolver_ClientIsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.register(t, orders("a", 1))
		c := resolve(t, w.builder(t, w.caller))
		require.Equal(t, []string{"1"}, c.told())
		require.NoError(t, w.caller.Close())
		require.Equal(t, []string{"1"}, c.told(), "the channel keeps its addresses")
		require.Len(t, c.errors(), 1)
		require.ErrorIs(t, c.errors()[0], zkrecipes.ErrClosed)
		time.Sleep(time.Hour)
		require.Len(t, c.errors(), 1)
	})
}

// Close ends the goroutine in any state, after which it sets no watch.
func TestResolver_Close(t *testing.T) {
	for name, before := range map[string]func(w *world){
		"following":    func(*world) {},
		"disconnected": func(w *world) { w.srv.Refuse(zktest.Everyone); w.srv.CutAll(); time.Sleep(time.Second) },
		"no view":      func(w *world) { w.srv.Stall(zktest.Everyone, zktest.Both) },
		"stalled":      func(w *world) { w.srv.Stall(zktest.Everyone, zktest.Both); time.Sleep(5500 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.register(t, orders("a", 1))
				c := resolve(t, w.builder(t, w.caller))
				before(w)
				began := time.Now()
				c.resolver.Close()
				require.Zero(t, time.Since(began))
				told := len(c.told())
				w.srv.Heal(zktest.Everyone)
				w.srv.Accept(zktest.Everyone)
				time.Sleep(time.Hour)
				require.Len(t, c.told(), told)
				// a watch may be left if the server did not answer, and fires once
				_, err := w.srv.Create(root+"/orders/b", nil, zktest.Persistent)
				require.NoError(t, err)
				synctest.Wait()
				require.Empty(t, w.srv.Watchers(root+"/orders"))
			})
		})
	}
}

func TestResolver_LeavesOutWhatItCannotCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		secure := orders("secure", 0)
		secure.TLSPort = 443
		both := orders("both", 1)
		both.TLSPort = 444
		w.register(t, secure)
		w.register(t, both)
		w.register(t, orders("portless", 0))
		w.register(t, orders("old", 2, "version", "1")) // it crashes and is restarted
		w.register(t, orders("new", 2, "version", "2"))
		_, err := w.srv.Create(root+"/orders/bad", []byte("not JSON"), zktest.Persistent)
		require.NoError(t, err)
		for id, data := range map[string]string{
			"null": `null`, "homeless": `{"port":8080}`,
			"below": `{"address":"h","port":-7}`,
		} {
			_, err := w.srv.Create(root+"/orders/"+id, []byte(data), zktest.Persistent)
			require.NoError(t, err)
		}

		plain := resolve(t, w.builder(t, w.caller))
		require.Equal(t, []string{"443 1 2"}, plain.told())
		i, _ := zkgrpc.FromEndpoint(plain.states[0].Endpoints[2])
		require.Equal(t, "new", i.ID)
		tls := resolve(t, w.builder(t, w.caller, zkgrpc.WithTLSPort()))
		require.Equal(t, []string{"443 444"}, tls.told())
		for range 3 {
			require.NoError(t, w.register(t, orders("guest", 9)).Close(t.Context()))
			synctest.Wait()
		}
		require.Equal(t, 2, strings.Count(w.log.String(), "decode /services/orders/bad"), "once for each channel")
		require.Equal(t, 2, strings.Count(w.log.String(), "instance /services/orders/homeless cannot be called: no address"))
		require.Equal(t, 1, strings.Count(w.log.String(), "it has no port\""))
		require.Contains(t, w.log.String(), "it has no TLS port")
	})
}

func TestNewResolver_BadInput(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, err := zkgrpc.NewResolver(nil)
		require.ErrorContains(t, err, "zkgrpc: discovery is nil")
		_, err = zkgrpc.NewResolver(open(t, w.caller), zkgrpc.WithLogger(nil))
		require.ErrorContains(t, err, "the logger is nil")
		_, err = zkgrpc.NewResolver(open(t, w.caller), nil)
		require.ErrorContains(t, err, "option 0 is nil")
		for _, target := range []string{"zk:///", "zk://host/orders", "zk://host:2181/orders"} {
			u, err := url.Parse(target)
			require.NoError(t, err)
			_, err = w.builder(t, w.caller).Build(resolver.Target{URL: *u}, &channel{}, resolver.BuildOptions{})
			require.ErrorContains(t, err, "want zk:///service")
		}
	})
}
