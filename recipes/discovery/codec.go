package discovery

import (
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/paths"
)

// Codec defines how the instances of services are stored in ZooKeeper. Its methods may be called concurrently.
type Codec interface {
	// Folder returns the path of a service below the base, such as "orders" or "orders/providers". The instances are
	// the children of that node. An error means that the service cannot have that name.
	Folder(service string) (string, error)
	// Service returns the service that a child of the base represents, and false if it represents none.
	Service(child string) (service string, ok bool)
	// Encode returns the node of an instance. Empty fields of the instance get the default of the format, such as a
	// random id.
	Encode(Instance) (Node, error)
	// Decode returns the instance that a node below the folder of the service represents. If it returns ErrNoInstance,
	// the node represents none and is not shown. Any other error is shown in place of the instance.
	Decode(service string, n Node) (Instance, error)
}

// Node is the node of an instance. Its data must not be modified.
type Node struct {
	Name string
	Data []byte
}

// ErrNoInstance is returned by a [Codec] for a node that serves another purpose.
var ErrNoInstance = errors.New("the node is no instance")

// plain is the part of a codec whose services are the children of the base, under their own names.
type plain struct{}

func (plain) Folder(service string) (string, error) {
	return service, paths.ValidateName("service", service)
}
func (plain) Service(child string) (string, bool) { return child, true }
