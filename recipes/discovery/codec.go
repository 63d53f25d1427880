package discovery

import (
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/paths"
)

// Codec defines how service instances are stored in ZooKeeper. Its methods may be called concurrently.
type Codec interface {
	// Folder returns the path, relative to the base, of the node whose children are the service's instances, such as
	// "orders" or "orders/providers". An error means that the service cannot have that name.
	Folder(service string) (string, error)
	// Service returns the name of the service that a child of the base represents, and false if it represents none.
	Service(child string) (service string, ok bool)
	// Encode returns the node for an instance. Empty fields get the format's default, such as a random ID.
	Encode(Instance) (Node, error)
	// Decode returns the instance that a node in the service's folder represents. If the node is not an instance,
	// Decode returns ErrNoInstance, and the node is not shown. Any other error is shown in place of the instance.
	Decode(service string, n Node) (Instance, error)
}

// Node is an instance's node. Its data must not be modified.
type Node struct {
	Name string
	Data []byte
}

// ErrNoInstance is returned by a [Codec] for a node that is not an instance, but serves another purpose.
var ErrNoInstance = errors.New("the node is not an instance")

// plain is the part of a codec whose services are the children of the base, under their own names.
type plain struct{}

func (plain) Folder(service string) (string, error) {
	return service, paths.ValidateName("service", service)
}
func (plain) Service(child string) (string, bool) { return child, true }
