package discovery

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"
)

// Instance is one process that offers a service. Each format documents the fields that it supports: see [Curator],
// [Spring], [Dubbo] and [Finagle]. Leave a field that the format does not support empty.
type Instance struct {
	// Service is the name of the service.
	Service string
	// ID identifies the instance within the service. By default the format generates one.
	ID string
	// Address is the host name or the IP address. If it is empty, [Discovery.Register] sets it to an address of this
	// machine.
	Address string
	// Port is the port without TLS; 0 if there is none.
	Port int
	// TLSPort is the port with TLS; 0 if there is none.
	TLSPort int
	// Metadata describes the instance, with keys such as "zone" or "weight". It must not be modified after it was read.
	Metadata map[string]string
	// Payload is the part of the node that belongs to the application, as JSON, byte for byte; nil if there is none. An
	// instance that was read may have its metadata in here too. To change them, set one of the two to nil.
	Payload json.RawMessage
	// URI specifies how the URI of the instance is built; nil if it has none.
	URI URISpec
	// Registered is when the instance was registered, by the clock of its process, in milliseconds. The default is the
	// current time.
	Registered time.Time
	// Type is the lifetime of the node, as Curator names it; the empty type is [Dynamic].
	Type Type
	// Disabled reports that the instance is registered but must not be used.
	Disabled bool
}

// Type is Curator's ServiceType, which is the lifetime of a node.
type Type string

// The types that Curator defines. [Discovery.Register] creates only dynamic instances.
const (
	Dynamic           Type = "DYNAMIC"            // an ephemeral node
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // an ephemeral node whose name ends in a number of the server
	Static            Type = "STATIC"             // a persistent node that its process deletes
	Permanent         Type = "PERMANENT"          // a persistent node that remains
)

// HostPort returns the address with a port: the one without TLS if there is one, otherwise the port with TLS. Without a
// port it returns the address.
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
