package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// service is a set of instances, on a network in memory.
type service struct {
	ctx       context.Context //nolint:containedctx // lives as long as the story
	zookeeper *zktest.Server
	network   network
	cast      map[string]*instance
}

// instance is one server with its own client, as in another process.
type instance struct {
	server *grpc.Server
	client *conn.Client
	drain  context.CancelFunc
	result chan error
}

// open connects a client to ZooKeeper.
func (s *service) open(name string) (*conn.Client, *discovery.Discovery, error) {
	client, err := conn.Dial(s.ctx, s.zookeeper.Addr(), conn.WithDialer(s.zookeeper.DialAs(name)), conn.WithIdentity(name),
		conn.WithSessionTimeout(session), conn.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	d, err := discovery.New(client, "/services")
	return client, d, err
}

// start starts instances, and returns when they are registered.
func (s *service) start(names ...string) error {
	for _, name := range names {
		client, d, err := s.open(name)
		if err != nil {
			return err
		}
		at := discovery.Instance{Service: "orders", ID: name, Address: name, Port: 8080}
		listener := s.network.listen(at.HostPort())
		ctx, drain := context.WithCancel(s.ctx)
		i := &instance{newServer(name), client, drain, make(chan error, 1)}
		registered := make(chan struct{})
		go func() {
			i.result <- zkgrpc.Serve(ctx, i.server, listener, d, at,
				zkgrpc.WithRegistered(func(*discovery.Registration) { close(registered) }),
				zkgrpc.WithRemoval(time.Second), zkgrpc.WithSettle(200*time.Millisecond))
		}()
		s.cast[name] = i
		select {
		case <-registered:
		case err := <-i.result:
			i.result <- err
			return err
		}
	}
	return nil
}

// newServer returns a server that answers each call with a name. It needs no generated code.
func newServer(name string) *grpc.Server {
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if err := sleep(stream.Context(), 2*time.Millisecond); err != nil { // the work
			return err
		}
		return stream.SendMsg(wrapperspb.String(name))
	}))
}

func (s *service) drain(name string) func() error {
	return func() error {
		i := s.cast[name]
		delete(s.cast, name)
		i.drain()
		return errors.Join(<-i.result, i.client.Close())
	}
}

// crash breaks all connections of an instance, without notifying ZooKeeper.
func (s *service) crash(name string) func() error {
	return func() error {
		s.zookeeper.Refuse(zktest.Label(name))
		s.zookeeper.Cut(zktest.Label(name))
		s.cast[name].server.Stop()
		return nil
	}
}

func (s *service) stall(name string) func() error {
	return func() error { s.zookeeper.Stall(zktest.Label(name), zktest.Both); return nil }
}

func (s *service) heal(name string) func() error {
	return func() error { s.zookeeper.Heal(zktest.Label(name)); return nil }
}

// end stops all instances.
func (s *service) end() {
	var ending sync.WaitGroup
	for _, i := range s.cast {
		ending.Go(func() {
			i.drain()
			<-i.result           //nolint:errcheck // an instance that has crashed has an error
			_ = i.client.Close() // never fails
		})
	}
	ending.Wait()
}

// network has the listeners in memory, by address.
type network struct {
	listeners sync.Map
}

func (n *network) listen(address string) net.Listener {
	l := bufconn.Listen(64 << 10)
	n.listeners.Store(address, l)
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	l, ok := n.listeners.Load(address)
	if !ok {
		return nil, fmt.Errorf("dial %s: no route to host", address)
	}
	return l.(*bufconn.Listener).DialContext(ctx) //nolint:errcheck // it has no others
}
