package zkgrpc

import (
	"reflect"
	"strconv"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// instanceKey finds an instance among the attributes of an endpoint and of an address.
type instanceKey struct{}

// instance can be compared, which gRPC does with attributes.
type instance struct{ discovery.Instance }

// Equal is what gRPC asks.
func (i instance) Equal(other any) bool {
	o, ok := other.(instance)
	return ok && reflect.DeepEqual(i, o)
}

// FromEndpoint returns the instance that an endpoint stands for. It is for balancers that look at endpoints. ok is false if the
// endpoint is not from this resolver. The instance must not be changed.
func FromEndpoint(e resolver.Endpoint) (i discovery.Instance, ok bool) { return from(e.Attributes) }

// FromAddress is [FromEndpoint] for balancers that look at addresses, such as those of package base.
func FromAddress(a resolver.Address) (i discovery.Instance, ok bool) {
	return from(a.BalancerAttributes) //nolint:staticcheck // where package base looks, and where it will be until it looks elsewhere
}

func from(a *attributes.Attributes) (discovery.Instance, bool) {
	i, ok := a.Value(instanceKey{}).(instance)
	return i.Instance, ok
}

// Weight returns the weight that an instance gives itself, which is its metadata "weight". It returns otherwise if there is none, or
// none that is a whole number. An instance with weight 0 wants no calls.
func Weight(i discovery.Instance, otherwise uint32) uint32 {
	weight, err := strconv.ParseUint(i.Metadata["weight"], 10, 32)
	if err != nil {
		return otherwise
	}
	return uint32(weight)
}

// Zone returns where an instance is, which is its metadata "zone"; "" if it does not say.
func Zone(i discovery.Instance) string { return i.Metadata["zone"] }
