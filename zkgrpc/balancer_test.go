package zkgrpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"

	"github.com/zkrecipes/zkrecipes/zkgrpc"
)

// heaviest calls the connected instance with the largest weight.
type heaviest struct{}

func (heaviest) Build(info base.PickerBuildInfo) balancer.Picker {
	var result balancer.PickResult
	var most uint32
	for connection, about := range info.ReadySCs {
		i, ok := zkgrpc.FromAddress(about.Address)
		if weight := zkgrpc.Weight(i, 1); ok && weight > most {
			most, result.SubConn = weight, connection
		}
	}
	if result.SubConn == nil {
		return base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	return always{result}
}

type always struct{ result balancer.PickResult }

func (a always) Pick(balancer.PickInfo) (balancer.PickResult, error) { return a.result, nil }

func init() { balancer.Register(base.NewBalancerBuilder("heaviest", heaviest{}, base.Config{})) }

func TestResolver_BalancerOfTheUser(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for port, name := range []string{"a", "b", "c"} {
			i := orders(name, port+1, "weight", fmt.Sprint((port*2)%3+1)) // 1, 3, 2
			serve(t, open(t, w.server), i, w.listen(i), newServer(name, noWork))
		}
		c := w.channel(t, "zk:///orders", w.builder(t, w.caller),
			grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"heaviest": {}}]}`))
		c.Connect()
		time.Sleep(time.Second)
		require.Equal(t, []string{"b"}, callFor(t, c, time.Second))
	})
}
