package zkgrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
)

const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`

// newServer returns a server that answers every call with its name, after work has returned.
func newServer(name string, work func(ctx context.Context) error, opts ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts, grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		if err := work(stream.Context()); err != nil {
			return err
		}
		return stream.SendMsg(wrapperspb.String(name))
	}))...)
}

func noWork(context.Context) error { return nil }

// call returns the name of the server that answers.
func call(ctx context.Context, c *grpc.ClientConn, opts ...grpc.CallOption) (string, error) {
	var name wrapperspb.StringValue
	err := c.Invoke(ctx, "/orders/Name", &emptypb.Empty{}, &name, opts...)
	return name.GetValue(), err
}

// network has listeners in memory, by address.
type network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

func (n *network) listen(i discovery.Instance) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*bufconn.Listener{}
	}
	l := bufconn.Listen(64 << 10)
	n.listeners[i.HostPort()] = l
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l, ok := n.listeners[address]
	n.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("dial %s: no route to host", address)
	}
	return l.DialContext(ctx)
}

// channel opens a channel on this network and closes it at the end of the test.
func (n *network) channel(t *testing.T, target string, b resolver.Builder, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.dial), grpc.WithResolvers(b),
		grpc.WithDefaultServiceConfig(roundRobin),
	}, opts...)
	c, err := grpc.NewClient(target, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // fails if the test has closed it
	return c
}

// serving is a server that Serve runs.
type serving struct {
	*grpc.Server
	drain  context.CancelFunc
	result chan error
}

// serve runs a server, and waits until it is registered. At the end of the test it is drained.
func serve(
	t *testing.T, d *discovery.Discovery, i discovery.Instance, l net.Listener, s *grpc.Server, opts ...zkgrpc.ServeOption,
) *serving {
	t.Helper()
	ctx, drain := context.WithCancel(t.Context())
	registered, result := make(chan struct{}), make(chan error, 1)
	opts = append(opts, zkgrpc.WithRegistered(func(*discovery.Registration) { close(registered) }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		result <- zkgrpc.Serve(ctx, s, l, d, i, opts...)
	}()
	t.Cleanup(func() { drain(); <-done })
	select {
	case <-registered:
		return &serving{s, drain, result}
	case err := <-result:
		t.Fatalf("serve: %v", err)
		return nil
	}
}
