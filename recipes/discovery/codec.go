package discovery

import (
	"errors"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Codec says how the instances of services are written in ZooKeeper. Its methods may be called by several goroutines at once.
type Codec interface {
	// Folder returns the path of a service below the base: its instances are the children of that node. Such a path is
	// "orders" or "orders/providers". An error says that the service cannot have that name.
	Folder(service string) (string, error)
	// Service returns the service for which a child of the base stands; false if it stands for none.
	Service(child string) (service string, ok bool)
	// Encode returns the node of an instance. What the instance leaves empty gets the default of the format, such as a random id.
	Encode(Instance) (Node, error)
	// Decode returns the instance that a node below the folder of the service stands for. ErrNoInstance says that it
	// stands for none, and it is not shown. Any other error is shown in the place of the instance.
	Decode(service string, n Node) (Instance, error)
}

// Node is the node of an instance. Its data must not be changed.
type Node struct {
	Name string
	Data []byte
}

// ErrNoInstance is what a [Codec] says of a node that is there for another purpose.
var ErrNoInstance = errors.New("the node is no instance")

// plain is the part of a codec whose services are the children of the base, under their own names.
type plain struct{}

func (plain) Folder(service string) (string, error) {
	return service, session.ValidateName("service", service)
}
func (plain) Service(child string) (string, bool) { return child, true }
