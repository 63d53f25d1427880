package discovery

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"
)

// Instance is one process that offers a service. Which fields are supported depends on the format: see [Curator],
// [Spring], [Dubbo] and [Finagle]. Leave unsupported fields empty.
type Instance struct {
	// Service is the service's name.
	Service string
	// ID identifies the instance within the service. If it is empty, the format generates one.
	ID string
	// Address is a host name or an IP address. If it is empty, [Discovery.Register] sets it to an address of this
	// machine.
	Address string
	// Port is the port without TLS; 0 if there is none.
	Port int
	// TLSPort is the port with TLS; 0 if there is none.
	TLSPort int
	// Metadata describes the instance, with keys such as "zone" or "weight". It must not be modified in an instance
	// that was read.
	Metadata map[string]string
	// Payload is the application's own part of the node, as JSON, byte for byte; nil if there is none. In an instance that
	// was read, the payload may contain the metadata as well, so if you change one of the two, set the other to nil.
	Payload json.RawMessage
	// URI specifies how the instance's URI is built; nil if the instance has none.
	URI URISpec
	// Registered is when the instance was registered, by its process's clock, to the millisecond. The default is the
	// current time.
	Registered time.Time
	// Type is the node's lifetime, in Curator's terms; the empty type means [Dynamic].
	Type Type
	// Disabled marks an instance that is registered but must not be used.
	Disabled bool
}

// Type is Curator's ServiceType, which determines how long an instance's node lives.
type Type string

// The types that Curator defines. [Discovery.Register] creates only dynamic instances.
const (
	Dynamic           Type = "DYNAMIC"            // an ephemeral node
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // an ephemeral node whose name ends in a sequence number
	Static            Type = "STATIC"             // a persistent node that its process deletes
	Permanent         Type = "PERMANENT"          // a persistent node that remains
)

// HostPort returns the address with Port or, if that is 0, with TLSPort. If both are 0, it returns the address alone.
func (i Instance) HostPort() string {
	port := i.Port
	if port == 0 {
		port = i.TLSPort
	}
	if port == 0 {
		return i.Address
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(port))
}

// checkCall returns why the instance cannot be called. Without an address, net.Dial would call this machine.
func (i Instance) checkCall() error {
	if i.Address == "" {
		return errors.New("no address")
	}
	return i.checkPorts()
}

// localAddress returns the first address of this machine that others may reach, as Curator chooses it; "" if there is
// none.
func localAddress() string {
	addresses, _ := net.InterfaceAddrs() // after an error there are none
	return firstReachable(addresses)
}

func firstReachable(addresses []net.Addr) string {
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}
