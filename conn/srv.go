package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/client"
)

// srvScheme is the prefix of a connect string that names SRV records, as in the Java client 3.10.
const srvScheme = "dns-srv://"

// service is the name of a service, without a port.
var service = regexp.MustCompile(`^\s*_[^.:]+\._tcp\.[^:]*$`)

// parseSRV parses "dns-srv://name/chroot", where rest is what follows the scheme.
func parseSRV(rest string) (source *client.Source, chroot string, err error) {
	name, chroot := cutChroot(rest)
	if err = validateChroot(chroot); err == nil && (name == "" || strings.ContainsAny(name, ",:; \t\r\n[]")) {
		err = fmt.Errorf("SRV name %q: want one name without a port, such as _zookeeper._tcp.example.com", name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("connect string %q: %w", srvScheme+rest, err)
	}
	lookup := net.DefaultResolver.LookupSRV
	return &client.Source{Name: srvScheme + name, Servers: func(ctx context.Context) ([]string, error) {
		_, records, err := lookup(ctx, "", "", name)
		if len(records) == 0 {
			return nil, err
		}
		// With an error, some targets were not valid names and are missing from the records.
		servers, bad := serversOf(records)
		return servers, errors.Join(err, bad)
	}}, chroot, nil
}

// serversOf returns the servers that SRV records name. The error describes records that name none. A target "." means
// that there is no service.
func serversOf(records []*net.SRV) (servers []string, err error) {
	targets := make([]string, len(records))
	for i, record := range records {
		targets[i] = net.JoinHostPort(strings.TrimSuffix(record.Target, "."), strconv.Itoa(int(record.Port)))
	}
	return withPorts(targets)
}
