package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zkgrpc"
)

// caller calls the service continuously, through one channel.
type caller struct {
	client  *conn.Client
	channel *grpc.ClientConn
	stop    context.CancelFunc
	calling sync.WaitGroup

	mu       sync.Mutex
	answered map[string]int // by instance
	failures []error
}

// call opens a channel and begins to call.
func (s *service) call(ctx context.Context) (*caller, error) {
	client, d, err := s.open("callers")
	if err != nil {
		return nil, err
	}
	zk, err := zkgrpc.NewResolver(d, zkgrpc.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	channel, err := grpc.NewClient("zk:///orders", grpc.WithResolvers(zk),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(s.network.dial))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &caller{client: client, channel: channel, stop: stop, answered: map[string]int{}}
	for range callers {
		c.calling.Go(func() {
			for sleep(ctx, 20*time.Millisecond) == nil {
				var name wrapperspb.StringValue
				err := channel.Invoke(ctx, "/orders/Name", &emptypb.Empty{}, &name)
				if ctx.Err() == nil {
					c.note(name.GetValue(), err)
				}
			}
		})
	}
	return c, nil
}

func (c *caller) note(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failures = append(c.failures, err)
		return
	}
	c.answered[name]++
}

// count returns the results of the calls since the last call of count.
func (c *caller) count() (answered map[string]int, failures []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered, failures = c.answered, c.failures
	c.answered, c.failures = map[string]int{}, nil
	return answered, failures
}

func (c *caller) end() {
	c.stop()
	c.calling.Wait()
	_ = errors.Join(c.channel.Close(), c.client.Close()) // both are open
}

func sorted(answered map[string]int) []string { return slices.Sorted(maps.Keys(answered)) }

// list returns the instances with their answers.
func list(answered map[string]int) string {
	var all []string
	for _, name := range sorted(answered) {
		all = append(all, fmt.Sprintf("%-4s %4d", name, answered[name]))
	}
	return strings.Join(all, "  ")
}
