package zkgrpc_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
)

// A server that is registered while it serves.
func offer(ctx context.Context, d *discovery.Discovery, listener net.Listener) error {
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	return zkgrpc.Serve(ctx, server, listener, d, discovery.Instance{
		Service: "orders", Address: "127.0.0.1", Metadata: map[string]string{"zone": "a"},
	})
}

// A channel to all registered servers whose health check reports that they are serving. Unless the program imports
// google.golang.org/grpc/health, as a blank import if need be, gRPC skips the check and calls all of them.
func dial(d *discovery.Discovery) (*grpc.ClientConn, error) {
	zk, err := zkgrpc.NewResolver(d)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("zk:///orders", grpc.WithResolvers(zk),
		grpc.WithDefaultServiceConfig(
			`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func Example() {
	ctx, stop := context.WithCancel(context.Background()) // a server: signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	client, done := bubble.Connect(ctx) // conn.Dial(ctx, "zk1:2181,zk2:2181,zk3:2181")
	defer done()
	d, err := discovery.New(client, "/services")
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan error, 1)
	go func() { served <- offer(ctx, d, listener) }()

	channel, err := dial(d)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = channel.Close() }() // it is closed once
	answer, err := healthpb.NewHealthClient(channel).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	fmt.Println(answer.GetStatus(), err)

	stop()
	fmt.Println("drained:", <-served)
	// Output:
	// SERVING <nil>
	// drained: <nil>
}
