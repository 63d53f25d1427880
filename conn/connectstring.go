package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

const defaultPort = "2181"

// Servers returns the servers that a connect string names, each once and with its port, and the chroot, which is empty
// if there is none. Use it to query each server separately, for example with four-letter words. It looks up the SRV
// records of dns-srv:// once, unless ctx is done first, and resolves no other names.
//
// Errors: a malformed connect string; the name servers' error; or records that name no server.
func Servers(ctx context.Context, connect string) (servers []string, chroot string, err error) {
	servers, source, chroot, err := parse(connect)
	if err != nil || source == nil {
		return servers, chroot, err
	}
	if ctx == nil {
		return nil, "", fmt.Errorf("servers of %s: %w", connect, session.ErrNoContext)
	}
	servers, err = source.Servers(ctx)
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("servers of %s: %w", connect, err)
	}
	return servers, chroot, nil
}

// parse parses a connect string, which names either the servers or a source of them.
func parse(connect string) (servers []string, source *client.Source, chroot string, err error) {
	if rest, ok := strings.CutPrefix(connect, srvScheme); ok {
		source, chroot, err = parseSRV(rest)
	} else {
		servers, chroot, err = parseConnect(connect)
	}
	return servers, source, chroot, err
}

// parseConnect splits "h1:2181,h2:2181/chroot" into addresses with ports, each once, and the chroot or "".
func parseConnect(connect string) (servers []string, chroot string, err error) {
	if strings.Contains(connect, "://") {
		return nil, "", fmt.Errorf("connect string %q: unexpected scheme %s: want %s", connect,
			scheme.FindString(connect), scheme.ReplaceAllString(connect, ""))
	}
	hosts, chroot := cutChroot(connect)
	if strings.Contains(chroot, ",") {
		return nil, "", fmt.Errorf("connect string %q: the chroot must appear only once, after the last server: want %s",
			connect, chrootOnce(connect))
	}
	if err := validateChroot(chroot); err != nil {
		return nil, "", fmt.Errorf("connect string %q: %w", connect, err)
	}
	if strings.TrimSpace(hosts) == "" {
		return nil, "", fmt.Errorf("connect string %q: no servers: want host:port[,host:port...][/chroot]", connect)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := withPort(strings.TrimSpace(host))
		if err == nil && service.MatchString(host) {
			err = fmt.Errorf("an SRV name must be the only entry after the scheme: want %s%s[/chroot]", srvScheme, host)
		}
		if err != nil {
			return nil, "", fmt.Errorf("connect string %q: server %q: %w", connect, host, err)
		}
		if !slices.Contains(servers, address) { // each costs an attempt to connect in every round
			servers = append(servers, address)
		}
	}
	return servers, chroot, nil
}

// cutChroot splits a connect string without a scheme into its hosts, and its chroot or "".
func cutChroot(connect string) (hosts, chroot string) {
	i := strings.IndexByte(connect, '/')
	switch {
	case i < 0:
		return connect, ""
	case connect[i:] == "/":
		return connect[:i], ""
	default:
		return connect[:i], connect[i:]
	}
}

func validateChroot(chroot string) error {
	if chroot == "" {
		return nil
	}
	if err := paths.Validate(chroot); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return nil
}

// chrootOnce suggests the correct form of a connect string that repeats the same chroot after each server. For any
// other it returns the general form.
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

var scheme = regexp.MustCompile(`[^,:/\s]*://`)

// bareIPv6 reports whether server is an IPv6 address without brackets, perhaps with a port, which cannot be
// distinguished from the address's last group.
func bareIPv6(server string) bool {
	end := max(strings.LastIndexByte(server, ':'), 0)
	return isIPv6(server) || isIPv6(server[:end])
}

func isIPv6(s string) bool {
	address, err := netip.ParseAddr(s)
	return err == nil && address.Is6()
}

// withPorts returns the well-formed servers, each once and with its port. The error describes the malformed ones, or
// an empty list.
func withPorts(list []string) (servers []string, err error) {
	var errs []error
	for _, server := range list {
		address, err := withPort(strings.TrimSpace(server))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("server %q: %w", server, err))
		case !slices.Contains(servers, address):
			servers = append(servers, address)
		}
	}
	if len(list) == 0 {
		errs = append(errs, errors.New("no servers"))
	}
	return servers, errors.Join(errs...)
}

func withPort(server string) (string, error) {
	if bareIPv6(server) {
		return "", errors.New("an IPv6 address must be in brackets: want [address]:port, such as [::1]:2181")
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
		return "", errors.New("a name cannot contain spaces or semicolons: separate servers with commas")
	}
	if strings.HasPrefix(server, "[") {
		if _, err := netip.ParseAddr(name); err != nil {
			return "", errors.New("brackets are only for IPv6 addresses")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	return net.JoinHostPort(name, port), nil
}
