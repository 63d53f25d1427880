package conn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// membersOf parses a configuration of an ensemble: a line "version=" with a hexadecimal number, and a line for each
// server,
//
//	server.1=host:2888:3888:participant;host:2181;host:2281
//
// in which the second part is for clients and the third for clients with TLS. Both parts may be missing, and so may
// the first host. Several hosts of one server are separated by "|".
//
// Source: QuorumPeer.QuorumServer of ZooKeeper; the third part is new in 3.10.
func membersOf(config string, secure bool) (version uint64, servers []string, err error) {
	var errs []error
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "version":
			if version, err = strconv.ParseUint(value, 16, 63); err != nil {
				return 0, nil, fmt.Errorf("%s: %w", line, err)
			}
		case strings.HasPrefix(key, "server."):
			addresses, err := memberOf(value, secure)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s=%s: %w", key, value, err))
			}
			servers = append(servers, addresses...)
		}
	}
	if len(servers) > 0 {
		var bad error
		servers, bad = withPorts(servers)
		errs = append(errs, bad)
	}
	return version, servers, errors.Join(errs...)
}

// memberOf returns the client addresses of a server. For a server that listens on all its addresses, these are the
// addresses that the other servers use. A server without a client address, as in a static configuration, has none.
func memberOf(value string, secure bool) ([]string, error) {
	parts := strings.Split(value, ";")
	client := ""
	if len(parts) > 1 {
		client = strings.TrimSpace(parts[1])
	}
	if secure && len(parts) > 2 && strings.TrimSpace(parts[2]) != "" {
		client = strings.TrimSpace(parts[2])
	}
	if client == "" {
		return nil, nil
	}
	host, port, err := "0.0.0.0", client, error(nil)
	if strings.Contains(client, ":") {
		host, port, err = net.SplitHostPort(client)
	}
	if err != nil {
		return nil, err
	}
	if !everywhere(host) {
		return []string{net.JoinHostPort(host, port)}, nil
	}
	var addresses []string
	for quorum := range strings.SplitSeq(parts[0], "|") {
		if host = hostOf(strings.TrimSpace(quorum)); !everywhere(host) {
			addresses = append(addresses, net.JoinHostPort(host, port))
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("it listens on all addresses, and its configuration names no specific one")
	}
	return addresses, nil
}

// hostOf returns the host of host:port:port:role.
func hostOf(quorum string) string {
	if rest, ok := strings.CutPrefix(quorum, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(quorum, ":")
	return host
}

// everywhere reports whether a server with this host listens on all its addresses.
func everywhere(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsUnspecified()
}
