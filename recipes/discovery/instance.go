package discovery

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"
)

// Instance is one process that offers a service. Which fields a format has is said there: see [Curator], [Spring], [Dubbo] and
// [Finagle]. A field that it has not must be left empty.
type Instance struct {
	// Service is the name of the service.
	Service string
	// ID is what tells the instance from the others of the service. Default: the format makes one.
	ID string
	// Address is the host name or the IP address. [Discovery.Register] makes it an address of this machine if it is empty.
	Address string
	// Port is the port without TLS; 0 if there is none.
	Port int
	// TLSPort is the port with TLS; 0 if there is none.
	TLSPort int
	// Metadata is what the instance says of itself, such as "zone" or "weight". It must not be changed after it was read.
	Metadata map[string]string
	// Payload is the part of the node that is up to the application, as JSON, byte for byte. Nil is no payload. An instance that was
	// read may have its metadata in here, too. To change them, set one of the two to nil.
	Payload json.RawMessage
	// URI says how the URI of the instance is put together; nil if nothing does.
	URI URISpec
	// Registered is when the instance was registered, by the clock of its process, in milliseconds. Default: now.
	Registered time.Time
	// Type is the lifetime of the node, as Curator names it; empty is [Dynamic].
	Type Type
	// Disabled says that the instance is registered, and that it is not to be used.
	Disabled bool
}

// Type is Curator's ServiceType.
type Type string

// The types. [Discovery.Register] makes dynamic instances alone.
const (
	Dynamic           Type = "DYNAMIC"            // an ephemeral node
	DynamicSequential Type = "DYNAMIC_SEQUENTIAL" // an ephemeral node whose name ends in a number of the server
	Static            Type = "STATIC"             // a persistent node that its process deletes
	Permanent         Type = "PERMANENT"          // a persistent node that stays
)

// HostPort returns the address with a port: that without TLS if there is one, else the port with TLS. Without a port it is the address.
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

// checkCall returns why nobody can call the instance. Without an address, net.Dial would call this machine.
func (i Instance) checkCall() error {
	if i.Address == "" {
		return errors.New("no address")
	}
	return i.checkPorts()
}

// localAddress returns the first address of this machine that others may reach, as Curator chooses it; "" if it has none.
func localAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}
