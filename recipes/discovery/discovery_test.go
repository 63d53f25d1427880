package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const base = "/services"

// These are the sizes of TestCost_ManyFollowers. The documentation has 1,000 and 100.
var (
	instances = flag.Int("instances", 50, "instances of a service that many follow")
	followers = flag.Int("followers", 20, "clients that follow it")
)

// inBubble runs f with a server, in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, zktest.Run(t, zktest.InMemory())) })
}

func open(t *testing.T, c *conn.Client, opts ...discovery.Option) *discovery.Discovery {
	t.Helper()
	d, err := discovery.New(c, base, opts...)
	require.NoError(t, err)
	return d
}

// orders returns an instance of the service orders.
func orders(id string, port int) discovery.Instance {
	return discovery.Instance{Service: "orders", ID: id, Address: "10.0.0.7", Port: port}
}

func register(
	t *testing.T, d *discovery.Discovery, i discovery.Instance, opts ...discovery.RegisterOption,
) *discovery.Registration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := d.Register(ctx, i, opts...)
	require.NoError(t, err)
	return r
}

func watch(
	t *testing.T, d *discovery.Discovery, service string, opts ...discovery.WatchOption,
) *bubble.Views[discovery.View] {
	t.Helper()
	return bubble.Watch(d.Watch(t.Context(), service, opts...))
}

// hostPorts returns the addresses of the usable instances of a view.
func hostPorts(v discovery.View) []string {
	list := []string{}
	for _, i := range v.Instances() {
		list = append(list, i.HostPort())
	}
	return list
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		for want, f := range map[string]func() (*discovery.Discovery, error){
			"client is nil":    func() (*discovery.Discovery, error) { return discovery.New(nil, base) },
			"is relative":      func() (*discovery.Discovery, error) { return discovery.New(c, "services") },
			"the codec is nil": func() (*discovery.Discovery, error) { return discovery.New(c, base, discovery.WithCodec(nil)) },
			"option 0 is nil":  func() (*discovery.Discovery, error) { return discovery.New(c, base, nil) },
		} {
			_, err := f()
			require.ErrorContains(t, err, want)
		}
		d := open(t, c)
		for want, change := range map[string]func(i *discovery.Instance){
			"the service is empty": func(i *discovery.Instance) { i.Service = "" },
			`type "STATIC"`:        func(i *discovery.Instance) { i.Type = discovery.Static },
			`id "a/b"`:             func(i *discovery.Instance) { i.ID = "a/b" },
		} {
			i := orders("1", 1)
			change(&i)
			_, err := d.Register(t.Context(), i)
			require.ErrorContains(t, err, want)
		}
		for want, opt := range map[string]discovery.RegisterOption{
			"the function is nil": discovery.WithReplace(nil), "option 0 is nil": nil,
		} {
			_, err := d.Register(t.Context(), orders("1", 1), opt)
			require.ErrorContains(t, err, want)
		}
		_, err := d.Instances(t.Context(), "a/b")
		require.ErrorContains(t, err, `service "a/b"`)
		v := watch(t, d, "")
		require.ErrorContains(t, v.Err(), "the service is empty")
		v = watch(t, d, "orders", discovery.WithSettle(0, 0))
		require.ErrorContains(t, v.Err(), "settle")
		v = watch(t, d, "orders", nil)
		require.ErrorContains(t, v.Err(), "discovery: option 0 is nil")
		bubble.Clean(t, srv, base)
	})
}

// These are codecs of users.
type (
	noFolder   struct{ discovery.Codec } // a folder that cannot be
	unreadable struct{ discovery.Codec } // nodes that do not decode
	inName     struct{ discovery.Codec } // the payload is in the name
)

func (noFolder) Folder(string) (string, error) { return "a\x01", nil }

func (unreadable) Decode(string, discovery.Node) (discovery.Instance, error) {
	return discovery.Instance{}, errors.New("unreadable")
}

func (inName) Encode(i discovery.Instance) (discovery.Node, error) {
	return discovery.Node{Name: i.ID + "-" + string(i.Payload)}, nil
}

func (inName) Decode(service string, n discovery.Node) (discovery.Instance, error) {
	id, payload, _ := strings.Cut(n.Name, "-")
	return discovery.Instance{Service: service, ID: id, Payload: []byte(payload)}, nil
}

func TestWithCodec_OfAUser(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		d := open(t, c, discovery.WithCodec(noFolder{discovery.Curator()}))
		_, err := d.Register(t.Context(), orders("1", 1))
		require.ErrorContains(t, err, "discovery: ")
		_, err = d.Instances(t.Context(), "orders")
		require.ErrorContains(t, err, "discovery: ")
		_, err = open(t, c, discovery.WithCodec(unreadable{discovery.Curator()})).Register(t.Context(), orders("1", 1))
		require.EqualError(t, err, "discovery: unreadable")
		bubble.Clean(t, srv, base)

		i := orders("1", 1)
		i.Payload = []byte("7")
		r := register(t, open(t, c, discovery.WithCodec(inName{discovery.Curator()})), i)
		require.Equal(t, "7", string(r.Instance().Payload))
	})
}

// By default an instance has an id, an address of this machine, and the current time.
func TestRegister_Defaults(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"))
		i := discovery.Instance{Service: "orders", Port: 8080}
		r, err := d.Register(t.Context(), i)
		if err != nil { // a machine without a network
			require.ErrorContains(t, err, "set Address")
			i.Address = "10.0.0.7"
			r = register(t, d, i)
		}
		got := r.Instance()
		require.Regexp(t, "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", got.ID)
		require.NotEmpty(t, got.Address)
		require.WithinDuration(t, time.Now(), got.Registered, time.Second)
		require.Equal(t, base+"/orders/"+got.ID, r.Path())
		require.Equal(t, srv.SessionOf("a"), r.State().Session)
		view, err := d.Instances(t.Context(), "orders")
		require.NoError(t, err)
		require.False(t, view.Current)
		node, _ := srv.Node(r.Path())
		require.Equal(t, []discovery.Entry{{
			Instance: got, Path: r.Path(), Data: node.Data, Czxid: node.Stat.Czxid, Session: srv.SessionOf("a"),
			Since: time.UnixMilli(node.Stat.Ctime),
		}}, view.Entries)
		names, err := d.Names(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"orders"}, names)
		require.NoError(t, r.Close(t.Context()))
		require.NoError(t, r.Close(t.Context()))
		require.ErrorIs(t, r.Update(t.Context(), r.Instance()), zkrecipes.ErrClosed)
		require.False(t, srv.Exists(r.Path()))
	})
}

// Of two processes with one id, one gets the error, and changes nothing.
func TestTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		first := register(t, open(t, bubble.Dial(t, srv, "a")), orders("1", 1))
		before, _ := srv.Node(first.Path())
		d := open(t, bubble.Dial(t, srv, "b"))
		_, err := d.Register(t.Context(), orders("1", 2))
		var taken *zkrecipes.TakenError
		require.ErrorAs(t, err, &taken)
		require.ErrorIs(t, err, zkrecipes.ErrTaken)
		require.Equal(t, srv.SessionOf("a"), taken.Session)
		after, _ := srv.Node(first.Path())
		require.Equal(t, before, after)

		time.AfterFunc(time.Second, func() { _ = first.Close(t.Context()) }) // never fails here
		second := register(t, d, orders("1", 2), discovery.WithWait())
		require.Equal(t, srv.SessionOf("b"), second.State().Session)
		third := register(t, open(t, bubble.Dial(t, srv, "c")), orders("1", 3),
			discovery.WithReplace(func([]byte, zk.Stat) bool { return true }))
		require.Equal(t, srv.SessionOf("c"), third.State().Session)
	})
}

// However the connection breaks, an instance is unchanged while its session lives, and a client that follows it sees no
// change.
func TestReconnect_WritesNothing(t *testing.T) {
	self := zktest.Label("a")
	for name, breaks := range map[string]func(srv *zktest.Server){
		"cut":     func(srv *zktest.Server) { srv.Cut(self) },
		"restart": func(srv *zktest.Server) { srv.Restart() },
		"stalled": func(srv *zktest.Server) {
			srv.Stall(self, zktest.Both)
			time.Sleep(bubble.Timeout / 2)
			srv.Heal(self)
		},
		"refused": func(srv *zktest.Server) {
			srv.Refuse(self)
			srv.Cut(self)
			time.Sleep(bubble.Timeout / 3)
			srv.Accept(self)
		},
		"a reply is lost": func(srv *zktest.Server) {
			srv.Intercept(zktest.Match{From: self}, zktest.DropReply())
			time.Sleep(3 * bubble.Timeout) // the node is read again by then
		},
		"frozen": func(srv *zktest.Server) {
			srv.Freeze()
			time.Sleep(bubble.Timeout / 3)
			srv.Thaw()
		},
		"events are lost": func(srv *zktest.Server) {
			srv.LoseWatch(self, base+"/orders/1")
			srv.Cut(self)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				r := register(t, open(t, bubble.Dial(t, srv, "a")), orders("1", 1))
				told := watch(t, open(t, bubble.Dial(t, srv, "b")), "orders")
				before, _ := srv.Node(r.Path())
				zxid, session := srv.Zxid(), srv.SessionOf("a")
				for range 5 {
					breaks(srv)
					time.Sleep(2 * bubble.Timeout)
				}
				require.Equal(t, session, srv.SessionOf("a"))
				after, _ := srv.Node(r.Path())
				require.Equal(t, before, after)
				require.Equal(t, zxid, srv.Zxid(), "nothing was written")
				require.True(t, r.State().Current)
				for _, v := range told.All() {
					require.Equal(t, []string{"10.0.0.7:1"}, hostPorts(v))
				}
			})
		})
	}
}

// Followers see one change; the id and the service remain the same.
func TestUpdate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"))
		i := orders("1", 1)
		i.Metadata = map[string]string{"weight": "1"}
		r := register(t, d, i)
		told := watch(t, open(t, bubble.Dial(t, srv, "b")), "orders")
		before := r.Instance()
		changed := r.Instance()
		changed.Metadata["weight"] = "2"
		require.NoError(t, r.Update(t.Context(), changed))
		last := told.Last()
		require.Len(t, told.All(), 2)
		require.Equal(t, "2", last.Entries[0].Metadata["weight"])
		require.Equal(t, before.Registered, last.Entries[0].Registered)
		require.Equal(t, r.State().Czxid, last.Entries[0].Czxid)
		time.Sleep(time.Second)
		require.NoError(t, r.Update(t.Context(), discovery.Instance{Port: 9}), "the rest stays as it is")
		require.Equal(t, before.Registered, told.Last().Entries[0].Registered)
		require.Equal(t, []string{"10.0.0.7:9"}, hostPorts(told.Last()))
		earlier := before.Registered.Add(-time.Hour)
		require.NoError(t, r.Update(t.Context(), discovery.Instance{Port: 9, Registered: earlier}))
		require.Equal(t, earlier, told.Last().Entries[0].Registered)

		for want, change := range map[string]func(i *discovery.Instance){
			"close the registration": func(i *discovery.Instance) { i.ID = "2" },
			"update of orders/1":     func(i *discovery.Instance) { i.Service = "other" },
			"port -1":                func(i *discovery.Instance) { i.Port = -1 },
			"too large": func(i *discovery.Instance) {
				i.Metadata = map[string]string{"x": strings.Repeat("x", 2<<20)}
			},
		} {
			bad := r.Instance()
			change(&bad)
			require.ErrorContains(t, r.Update(t.Context(), bad), want)
		}
		require.Equal(t, 9, r.Instance().Port)
		require.NotContains(t, r.Instance().Metadata, "x", "what was refused is forgotten")
	})
}

// What a caller changes in it does not change the registration.
func TestInstance_IsACopy(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		i := orders("1", 1)
		i.Metadata = map[string]string{"weight": "1"}
		i.URI = discovery.URISpec{{Value: "/orders"}}
		i.Payload = json.RawMessage(`{"weight":"1","more":{}}`)
		r := register(t, open(t, bubble.Dial(t, srv, "a")), i)
		changed := r.Instance()
		changed.Metadata["weight"], changed.URI[0].Value, changed.Payload[0] = "2", "changed", '!'
		now := r.Instance()
		require.Equal(t, "1", now.Metadata["weight"])
		require.Equal(t, "/orders", now.URI[0].Value)
		require.JSONEq(t, string(i.Payload), string(now.Payload))
	})
}

// What Instance returns can be disabled and enabled again. Its metadata still has the status of before.
func TestUpdate_DisabledAndBack(t *testing.T) {
	for name, of := range map[string]struct {
		codec discovery.Codec
		first discovery.Instance
	}{
		"spring":  {discovery.Spring(), orders("1", 1)},
		"dubbo":   {discovery.Dubbo(), discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880}},
		"finagle": {discovery.Finagle(), orders("0000000001", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(of.codec))
				r := register(t, d, of.first)
				for _, disabled := range []bool{true, false, true} {
					i := r.Instance()
					i.Disabled = disabled
					require.NoError(t, r.Update(t.Context(), i))
					view, err := d.Instances(t.Context(), of.first.Service)
					require.NoError(t, err)
					require.Len(t, view.Entries, 1)
					require.Equal(t, disabled, view.Entries[0].Disabled)
				}
			})
		})
	}
}

// If the payload contradicts Disabled, Register fails rather than registering an enabled instance.
func TestUpdate_PayloadSaysOtherwise(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Spring()))
		i := orders("1", 1)
		i.Payload, i.Disabled = []byte(`{"metadata":{"instance_status":"UP"},"more":1}`), true
		_, err := d.Register(t.Context(), i)
		require.ErrorContains(t, err, "the payload has another value")
		i.Disabled = false
		r := register(t, d, i)
		require.JSONEq(t, string(i.Payload), string(r.Instance().Payload), "it has more than its metadata")
	})
}

// Dubbo's data is the name of the node. The new node is created before the old one is deleted, and watchers of the
// registration learn of the new one.
func TestUpdate_NameHasTheData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
		i := discovery.Instance{
			Service: "org.Orders", Address: "10.0.0.7", Port: 20880,
			Metadata: map[string]string{"weight": "100"},
		}
		r := register(t, d, i)
		var states []node.State
		var last error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for s, err := range r.Watch(t.Context()) {
				states, last = append(states, s), err
			}
		}()
		told := watch(t, d, "org.Orders")
		require.NoError(t, r.Update(t.Context(), r.Instance()), "the node stays")
		changed := r.Instance()
		changed.Metadata["weight"] = "50"
		old := r.Path()
		require.NoError(t, r.Update(t.Context(), changed))
		require.NotEqual(t, old, r.Path())
		require.Equal(t, "50", told.Last().Entries[0].Metadata["weight"])
		require.Equal(t, []int{1, 2, 1}, sizes(srv, base+"/org.Orders/providers"), "both for a moment, and never none")
		names, err := d.Names(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"org.Orders"}, names)

		// If the new name is taken, nothing changes.
		other := open(t, bubble.Dial(t, srv, "b"), discovery.WithCodec(discovery.Dubbo()))
		i.Registered, i.Metadata = r.Instance().Registered, map[string]string{"weight": "7"}
		register(t, other, i)
		changed.Metadata["weight"] = "7"
		require.ErrorIs(t, r.Update(t.Context(), changed), zkrecipes.ErrTaken)
		require.True(t, srv.Exists(r.Path()))
		require.Equal(t, "50", r.Instance().Metadata["weight"])

		require.NoError(t, r.Close(t.Context()))
		<-ended
		require.ErrorIs(t, last, zkrecipes.ErrClosed)
		require.Equal(t, srv.SessionOf("a"), states[len(states)-2].Session)
		require.Len(t, srv.Children(base+"/org.Orders/providers"), 1)
	})
}

// A nil context used to panic once its error was told.
func TestRegistration_Watch_Ends(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		r := register(t, open(t, bubble.Dial(t, srv, "a")), orders("1", 1))
		var errs []error
		for _, err := range r.Watch(nil) { //nolint:staticcheck // that is the mistake
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], "context is nil")

		for s, err := range r.Watch(t.Context()) {
			require.NoError(t, err)
			require.True(t, s.Exists)
			break
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		n := 0
		for s, err := range r.Watch(ctx) {
			require.NoError(t, err)
			require.True(t, s.Exists)
			n++
		}
		require.Equal(t, 1, n, "it ends with its context, silently")
	})
}

// Once Update has replaced the node, no states of the old one follow.
func TestRegistration_Watch_OldNodeIsDisconnected(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
		r := register(t, d, discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
		old := r.State().Czxid
		srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "/providers/"}, zktest.DropReply())
		var incarnations []int64
		ctx, cancel := context.WithCancel(t.Context())
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			for s, err := range r.Watch(ctx) {
				assert.NoError(t, err)
				if s.Czxid == old && r.State().Czxid != old {
					t.Error("a state of the old node was told")
				}
				if s.Current {
					incarnations = append(incarnations, s.Czxid)
				}
			}
		}()
		synctest.Wait()
		changed := r.Instance()
		changed.Metadata["weight"] = "50"
		require.NoError(t, r.Update(t.Context(), changed))
		time.Sleep(time.Minute)
		cancel()
		<-watching
		require.Equal(t, old, incarnations[0])
		require.Equal(t, r.State().Czxid, incarnations[len(incarnations)-1])
	})
}

// sizes returns how many children a node had after each change of its children.
func sizes(srv *zktest.Server, parent string) (list []int) {
	n := 0
	for _, txn := range srv.History() {
		for _, c := range txn.Changes {
			switch {
			case path.Dir(c.Path) != parent, c.Kind == zktest.ChangeSet:
				continue
			case c.Kind == zktest.ChangeCreate:
				n++
			default:
				n--
			}
			list = append(list, n)
		}
	}
	return list
}

// Close does not wait for an Update that cannot be performed, and leaves neither node.
func TestClose_EndsAnUpdate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
		r := register(t, d, discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
		srv.Refuse(zktest.Label("a"))
		srv.Cut(zktest.Label("a"))
		updated := make(chan error, 2)
		for _, weight := range []string{"1", "2"} {
			go func() {
				changed := r.Instance()
				changed.Metadata["weight"] = weight
				updated <- r.Update(t.Context(), changed)
			}()
		}
		time.Sleep(time.Second)
		time.AfterFunc(time.Second, func() { srv.Accept(zktest.Label("a")) })
		require.NoError(t, r.Close(t.Context()))
		for range 2 {
			require.ErrorIs(t, <-updated, zkrecipes.ErrClosed)
		}
		time.Sleep(time.Minute)
		require.Empty(t, srv.Children(base+"/org.Orders/providers"))
	})
}

// Whichever comes first, Close and Update leave neither node. If Close waits, they are gone when it returns.
func TestClose_BesideAnUpdate(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const latency = 10 * time.Millisecond
		random := rand.New(rand.NewPCG(1, 0))
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
		srv.SetLatency(latency)
		hasty, cancel := context.WithCancel(t.Context())
		cancel()
		for port := range 300 {
			r := register(t, d, discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: port + 1})
			updated := make(chan error, 1)
			go func() {
				updated <- r.Update(t.Context(),
					discovery.Instance{ID: r.Instance().ID, Port: port + 1, Metadata: map[string]string{"weight": "1"}})
			}()
			time.Sleep(latency) // the answer of the server has arrived too
			for range random.IntN(100) {
				runtime.Gosched()
			}
			if port%2 == 0 {
				require.NoError(t, r.Close(t.Context()))
				require.Empty(t, srv.Children(base+"/org.Orders/providers"))
			} else {
				_ = r.Close(hasty) // it continues in the background
			}
			if err := <-updated; err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrClosed)
			}
			time.Sleep(bubble.Timeout)
			require.Empty(t, srv.Children(base+"/org.Orders/providers"))
		}
	})
}

// The node that an Update could not remove is removed by Close, or Close returns why it is not.
func TestClose_WaitsForWhatUpdateReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
		r := register(t, d, discovery.Instance{Service: "org.Orders", Address: "10.0.0.7", Port: 20880})
		old := r.Path()
		refused := srv.Intercept(zktest.Match{Op: zktest.OpDelete, Path: "^" + regexp.QuoteMeta(old) + "$", Times: -1},
			zktest.Fail(zktest.CodeNoAuth))
		changed := r.Instance()
		changed.Metadata["weight"] = "50"
		require.ErrorIs(t, r.Update(t.Context(), changed), zk.ErrNoAuth)
		require.NotEqual(t, old, r.Path())
		require.Equal(t, "50", r.Instance().Metadata["weight"], "the new node is there")
		require.NoError(t, r.Update(t.Context(), r.Instance()), "which changes nothing")
		changed.Metadata["weight"] = "60"
		require.NoError(t, r.Update(t.Context(), changed), "which replaces the node again") // Close forgot the first one
		require.ErrorIs(t, r.Close(t.Context()), zk.ErrNoAuth)
		require.Equal(t, []string{path.Base(old)}, srv.Children(path.Dir(old)))
		refused.Remove()
		time.Sleep(time.Minute)
		require.NoError(t, r.Close(t.Context()))
		require.Empty(t, srv.Children(path.Dir(old)))
	})
}

// After an error the registration has the new instance, which is written as soon as possible.
func TestUpdate_NotConfirmed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		r := register(t, open(t, bubble.Dial(t, srv, "a")), orders("1", 1))
		told := watch(t, open(t, bubble.Dial(t, srv, "b")), "orders")
		srv.Stall(zktest.Label("a"), zktest.Both)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Update(ctx, orders("1", 2)), context.DeadlineExceeded)
		require.Equal(t, 2, r.Instance().Port)
		require.Equal(t, []string{"10.0.0.7:1"}, hostPorts(told.Last()))
		srv.Heal(zktest.Label("a"))
		time.Sleep(bubble.Timeout)
		require.Equal(t, []string{"10.0.0.7:2"}, hostPorts(told.Last()))
	})
}

// An Update that waits for another one ends with its context.
func TestUpdate_WaitsForItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		r := register(t, open(t, bubble.Dial(t, srv, "a")), orders("1", 1))
		srv.Stall(zktest.Label("a"), zktest.Both)
		first := make(chan error, 1)
		go func() { first <- r.Update(t.Context(), orders("1", 2)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, r.Update(ctx, orders("1", 3)), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.Empty(t, first)
		srv.Heal(zktest.Label("a"))
		require.NoError(t, <-first)
		require.Equal(t, 2, r.Instance().Port)
	})
}

// The context only bounds the wait for the node.
func TestRegister_ContextEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := open(t, bubble.Dial(t, srv, "a")).Register(ctx, orders("1", 1))
		require.NoError(t, err)
		cancel()
		require.NoError(t, r.Update(t.Context(), orders("1", 2)))
		require.True(t, srv.Exists(r.Path()))
	})
}

// A call whose context has ended writes nothing, and neither does one after Close.
func TestEndedContext_WritesNothing(t *testing.T) {
	for range 20 { // a select would choose at random between its turn and the end of the context
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Dubbo()))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			writes := srv.Intercept(zktest.Match{Times: -1, Op: zktest.OpMulti, Path: "/providers/"}, zktest.Proceed())
			_, err := d.Register(ctx, orders("", 1))
			require.ErrorIs(t, err, context.Canceled)
			synctest.Wait()
			require.Zero(t, writes.Hits())
			r := register(t, d, orders("", 1))
			before, sent := r.Instance(), writes.Hits()
			require.Positive(t, sent)
			changed := discovery.Instance{Port: 1, Metadata: map[string]string{"weight": "1"}}
			require.ErrorIs(t, r.Update(ctx, changed), context.Canceled)
			sameNode := register(t, open(t, bubble.Dial(t, srv, "b")), orders("1", 1))
			require.ErrorIs(t, sameNode.Update(ctx, changed), context.Canceled)
			require.Empty(t, sameNode.Instance().Metadata)
			require.NoError(t, r.Close(t.Context()))
			require.ErrorIs(t, r.Update(t.Context(), changed), zkrecipes.ErrClosed)
			synctest.Wait()
			require.Equal(t, before, r.Instance())
			require.Equal(t, sent, writes.Hits())
		})
	}
}

// counting counts what it decodes. The payloads of instances are unique.
type counting struct {
	discovery.Codec
	decoded *[]weak.Pointer[byte]
}

func (c counting) Decode(service string, n discovery.Node) (discovery.Instance, error) {
	i, err := c.Codec.Decode(service, n)
	i.Payload = make([]byte, 1<<10)
	*c.decoded = append(*c.decoded, weak.Make(&i.Payload[0]))
	return i, err
}

// A node is decoded once, and its result is dropped when the node is gone.
func TestWatch_DecodesWhatHasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"))
		var decoded []weak.Pointer[byte]
		follower := open(t, bubble.Dial(t, srv, "b"), discovery.WithCodec(counting{discovery.Curator(), &decoded}))
		var entries int
		go func() {
			for v, err := range follower.Watch(t.Context(), "orders") {
				assert.NoError(t, err)
				entries = len(v.Entries)
			}
		}()
		first := register(t, d, orders("1", 1))
		for n := range 3 {
			other := register(t, d, orders(fmt.Sprint("other", n), 1))
			synctest.Wait()
			require.Equal(t, 2, entries)
			require.NoError(t, other.Close(t.Context()))
			synctest.Wait()
			require.Equal(t, 1, entries)
		}
		require.Len(t, decoded, 4)
		require.NoError(t, first.Update(t.Context(), orders("1", 2)))
		synctest.Wait()
		require.Len(t, decoded, 5)
		runtime.GC()
		for n, payload := range decoded {
			require.Equal(t, n == 4, payload.Value() != nil, "instance %d", n)
		}
	})
}

// The other instances are still shown, and a node that is not an instance is not.
func TestWatch_EntryThatDoesNotDecode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Finagle()))
		told := watch(t, d, "orders")
		require.Empty(t, told.Last().Entries)
		register(t, d, orders("0000000001", 1))
		bad, err := srv.Create(base+"/orders/member_0000000002", []byte("{"), zktest.Persistent)
		require.NoError(t, err)
		last := told.Last()
		require.True(t, last.Current)
		require.Equal(t, []string{"10.0.0.7:1"}, hostPorts(last))
		require.Len(t, last.Entries, 2)
		require.ErrorContains(t, last.Entries[1].Err, "decode "+bad)
		require.Equal(t, discovery.Instance{Service: "orders"}, last.Entries[1].Instance)
		require.Equal(t, "{", string(last.Entries[1].Data))
		require.Zero(t, last.Entries[1].Session)

		n := len(told.All())
		vector, err := srv.Create(base+"/orders/vector_0000000003", nil, zktest.Persistent)
		require.NoError(t, err)
		require.NoError(t, srv.Set(vector, []byte("x")))
		require.Len(t, told.All(), n, "told once each")
		require.NoError(t, srv.Set(bad, []byte(`{"serviceEndpoint":{"host":"b","port":2},"status":"ALIVE"}`)))
		require.Equal(t, []string{"10.0.0.7:1", "b:2"}, hostPorts(told.Last()))
		view, err := d.Instances(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, []string{"10.0.0.7:1", "b:2"}, hostPorts(view))
	})
}

// net.Dial of ":8080" would call this machine. Such an entry has an error, and still shows what its node contains.
func TestInstances_NobodyCanCall(t *testing.T) {
	dubbo := func(authority string) string { return "dubbo%3A%2F%2F" + authority + "%2Forg.Orders" }
	for _, c := range []struct {
		codec            discovery.Codec
		name, data, want string
		port             int
	}{
		{discovery.Curator(), "1", `null`, "want a JSON object", 0},
		{discovery.Curator(), "1", `{}`, "no address", 0},
		{discovery.Curator(), "1", `{"name":"orders","id":"1","address":null,"port":8080}`, "no address", 8080},
		{discovery.Curator(), "1", `{"address":"h","port":99999999999}`, `field "port" is 99999999999`, 0},
		{discovery.Curator(), "1", `{"address":"h","port":true,"sslPort":false}`, `field "port" is true`, 0},
		{discovery.Curator(), "1", `{"address":"h","port":65536}`, "port 65536", 65536},
		{discovery.Curator(), "1", `{"address":"h","port":-7}`, "port -7", -7},
		{discovery.Curator(), "1", `{"address":"h","port":8080,"sslPort":-1}`, "port -1", 8080},
		{discovery.Spring(), "1", `{"port":8080,"payload":{"metadata":{"zone":"a"}}}`, "no address", 8080},
		{discovery.Finagle(), "member_1", `null`, "want a JSON object", 0},
		{discovery.Finagle(), "member_1", `{"status":"ALIVE","serviceEndpoint":null}`, "no serviceEndpoint", 0},
		{discovery.Finagle(), "member_1", `{"status":"ALIVE","serviceEndpoint":{"port":8080}}`, "no address", 8080},
		{
			discovery.Finagle(), "member_1", `{"status":"ALIVE","serviceEndpoint":{"host":"h","port":70000}}`,
			"port 70000", 70000,
		},
		{discovery.Dubbo(), dubbo("%3A20880"), "", "no address", 20880},
		{discovery.Dubbo(), dubbo("h%3A65536"), "", "want 0 to 65535", 0},
	} {
		t.Run(c.name+c.data, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(c.codec))
				at := base
				below, err := c.codec.Folder("orders")
				require.NoError(t, err)
				for _, name := range []string{"", below, c.name} {
					for step := range strings.SplitSeq(name, "/") {
						at = path.Join(at, step)
						if !srv.Exists(at) {
							_, err = srv.Create(at, []byte(c.data), zktest.Persistent)
							require.NoError(t, err)
						}
					}
				}
				told := watch(t, d, "orders").Last()
				read, err := d.Instances(t.Context(), "orders")
				require.NoError(t, err)
				for _, v := range []discovery.View{told, read} {
					require.Empty(t, v.Instances())
					require.Len(t, v.Entries, 1)
					require.ErrorContains(t, v.Entries[0].Err, c.want)
					require.ErrorContains(t, v.Entries[0].Err, at)
					require.Equal(t, c.port, v.Entries[0].Port)
				}
			})
		})
	}
}

// The caller may sort the entries of its view.
func TestWatch_CallerChangesItsView(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"), discovery.WithCodec(discovery.Finagle()))
		register(t, d, orders("1", 1))
		register(t, d, orders("2", 2))
		n := 0
		for v, err := range d.Watch(t.Context(), "orders") {
			require.NoError(t, err)
			if n++; n == 2 {
				require.Equal(t, []string{"10.0.0.7:1", "10.0.0.7:2", "10.0.0.7:3"}, hostPorts(v))
				break
			}
			slices.Reverse(v.Entries)
			// This node is not an instance, so nothing is yielded.
			_, err := srv.Create(base+"/orders/vector_0000000001", nil, zktest.Persistent)
			require.NoError(t, err)
			synctest.Wait()
			time.AfterFunc(time.Second, func() { _, _ = d.Register(t.Context(), orders("3", 3)) }) // never fails here
		}
	})
}

// Before the first registration, Names returns none.
func TestNames_NoServices(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := bubble.Dial(t, srv, "a")
		d := open(t, c)
		require.Equal(t, base, d.Base())
		names, err := d.Names(t.Context())
		require.NoError(t, err)
		require.Empty(t, names)
		dubbo := open(t, c, discovery.WithCodec(discovery.Dubbo()))
		for _, child := range []string{"", "/config", "/mapping", "/metadata", "/org.Orders", "/a%2Fb"} {
			_, err := srv.Create(base+child, nil, zktest.Persistent)
			require.NoError(t, err)
		}
		names, err = dubbo.Names(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a/b", "org.Orders"}, names)
		require.NoError(t, c.Close())
		_, err = d.Names(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = d.Instances(t.Context(), "orders")
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		_, err = d.Register(t.Context(), orders("1", 1))
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
	})
}

// A server that lags behind would show an old state.
func TestNames_AsksTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"))
		var order []zktest.Op
		seen := srv.Intercept(zktest.Match{From: zktest.Label("a"), Times: -1, Where: func(q zktest.Request) bool {
			order = append(order, q.Op)
			return true
		}}, zktest.Proceed())
		_, err := d.Names(t.Context())
		require.NoError(t, err)
		require.Equal(t, zktest.OpSync, order[0])
		require.Len(t, order, 2)
		seen.Remove()
		for _, op := range order {
			srv.Intercept(zktest.Match{From: zktest.Label("a"), Op: op}, zktest.Fail(zktest.CodeNoAuth))
			_, err = d.Names(t.Context())
			require.ErrorIs(t, err, zk.ErrNoAuth)
		}
	})
}

// This counts the requests of all clients that follow a service when an instance joins, changes or leaves.
func TestCost_ManyFollowers(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		d := open(t, bubble.Dial(t, srv, "a"))
		register(t, d, orders("first", 1))
		for i := range *instances - 1 {
			n, err := discovery.Curator().Encode(orders(fmt.Sprint(i), 1))
			require.NoError(t, err)
			_, err = srv.Create(base+"/orders/"+n.Name, n.Data, zktest.Persistent)
			require.NoError(t, err)
		}
		shown := make([]discovery.View, *followers)
		for i := range shown {
			follower := open(t, bubble.Dial(t, srv, fmt.Sprint("f", i)))
			go func() {
				for v, err := range follower.Watch(t.Context(), "orders") {
					if err == nil {
						shown[i] = v
					}
				}
			}()
		}
		synctest.Wait()
		count := func(what string, least, most, left int, f func()) {
			requests := bubble.Requests(srv)
			defer requests.Remove()
			f()
			synctest.Wait()
			t.Logf("%d instances, %d followers, %s: %d requests", *instances, *followers, what, requests.Hits())
			require.GreaterOrEqual(t, requests.Hits(), least, what)
			require.LessOrEqual(t, requests.Hits(), most, what)
			for _, v := range shown {
				require.True(t, v.Current)
				require.Len(t, v.Entries, left)
			}
		}
		var r *discovery.Registration
		count("one joins", 2+2**followers, 2+2**followers, *instances+1, func() { r = register(t, d, orders("new", 1)) })
		count("one changes", 3+2**followers, 3+2**followers, *instances+1,
			func() { require.NoError(t, r.Update(t.Context(), orders("new", 2))) })
		// The server fires two watches of a follower. A follower that lists between the two lists again.
		count("one leaves", 2+*followers, 2+2**followers, *instances, func() { require.NoError(t, r.Close(t.Context())) })
	})
}
