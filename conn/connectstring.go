package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/session"
)

const defaultPort = "2181"

// parseConnect splits "h1:2181,h2:2181/chroot" into addresses with ports and the chroot, "" for none.
func parseConnect(connect string) (servers []string, chroot string, err error) {
	hosts := connect
	if i := strings.IndexByte(connect, '/'); i >= 0 {
		hosts, chroot = connect[:i], connect[i:]
	}
	if chroot == "/" {
		chroot = ""
	}
	if strings.Contains(chroot, ",") {
		return nil, "", fmt.Errorf("connect string %q: the chroot stands once, after the last server: want %s", connect, chrootOnce(connect))
	}
	if chroot != "" {
		if err := session.ValidatePath(chroot); err != nil {
			return nil, "", fmt.Errorf("connect string %q: chroot: %w", connect, err)
		}
	}
	if strings.TrimSpace(hosts) == "" {
		return nil, "", fmt.Errorf("connect string %q: no servers: want host:port[,host:port...][/chroot]", connect)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := withPort(strings.TrimSpace(host))
		if err != nil {
			return nil, "", fmt.Errorf("connect string %q: server %q: %w", connect, host, err)
		}
		servers = append(servers, address)
	}
	return servers, chroot, nil
}

// chrootOnce returns a connect string whose servers each had the same chroot as it should be, or else the form in general.
func chrootOnce(connect string) string {
	var hosts []string
	var chroot string
	for i, server := range strings.Split(connect, ",") {
		host, path, _ := strings.Cut(server, "/")
		if i > 0 && path != chroot {
			return "host:port[,host:port...]/chroot, without a comma in the chroot"
		}
		hosts, chroot = append(hosts, host), path
	}
	return strings.Join(hosts, ",") + "/" + chroot
}

func withPort(server string) (string, error) {
	if _, err := netip.ParseAddr(server); err == nil { // colons in it do not announce a port
		return net.JoinHostPort(server, defaultPort), nil
	}
	if server != "" && (!strings.Contains(server, ":") || strings.HasSuffix(server, "]")) {
		server += ":" + defaultPort
	}
	name, port, err := net.SplitHostPort(server)
	switch {
	case server == "", err == nil && name == "":
		return "", errors.New("empty name")
	case err != nil:
		return "", err
	case strings.ContainsAny(name, " \t\r\n;"):
		return "", errors.New("a name cannot have spaces or semicolons: servers are separated by commas")
	}
	if strings.HasPrefix(server, "[") {
		if _, err := netip.ParseAddr(name); err != nil {
			return "", errors.New("brackets are for IPv6 addresses")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return net.JoinHostPort(name, port), nil
}

// lookup fails if none of the servers has an address: a misspelt name is told at once, not after a timeout. Later
// dials resolve the names again, so that servers may move.
func lookup(ctx context.Context, servers []string, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var errs []error
	for _, server := range servers {
		host, _, _ := net.SplitHostPort(server)                 // parseConnect has joined them
		_, err := net.DefaultResolver.LookupHost(limited, host) // it returns an address as it is
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	err := fmt.Errorf("no server name resolves: %w", errors.Join(errs...))
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}
