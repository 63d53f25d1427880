package zkgrpc

import (
	"reflect"
	"strconv"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// instanceKey is the key of an instance among the attributes of an endpoint and of an address.
type instanceKey struct{}

// instance is comparable by Equal, because gRPC compares attributes.
type instance struct{ discovery.Instance }

// Equal is called by gRPC.
func (i instance) Equal(other any) bool {
	o, ok := other.(instance)
	return ok && reflect.DeepEqual(i, o)
}

// FromEndpoint returns the instance that an endpoint represents, for balancers that use endpoints. ok is false if the
// endpoint does not come from this resolver. The instance must not be modified.
func FromEndpoint(e resolver.Endpoint) (i discovery.Instance, ok bool) { return from(e.Attributes) }

// FromAddress is like [FromEndpoint], for balancers that use addresses, such as those of package base.
func FromAddress(a resolver.Address) (i discovery.Instance, ok bool) {
	return from(a.BalancerAttributes) //nolint:staticcheck // package base reads them
}

func from(a *attributes.Attributes) (discovery.Instance, bool) {
	i, ok := a.Value(instanceKey{}).(instance)
	return i.Instance, ok
}

// Weight returns the weight that an instance declares in its metadata "weight". If there is none, or it is not a whole
// number from 0 to 4294967295, Weight returns its second argument. An instance with weight 0 should receive no calls.
func Weight(i discovery.Instance, otherwise uint32) uint32 {
	weight, err := strconv.ParseUint(i.Metadata["weight"], 10, 32)
	if err != nil {
		return otherwise
	}
	return uint32(weight)
}

// Zone returns the location that an instance declares in its metadata "zone", or "" if it declares none.
func Zone(i discovery.Instance) string { return i.Metadata["zone"] }
