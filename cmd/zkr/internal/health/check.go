// Package health determines whether a program serves.
package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Check returns the reason why the program does not serve, or nil if it does.
type Check func(ctx context.Context) error

// ParseCheck parses the value of --check: "tcp" for the port on this machine, "tcp://host:port", "/path" for HTTP on
// the port, a URL, "exec:line" for a shell command line, or "none". Port 0 means unknown.
func ParseCheck(text string, port int) (Check, error) {
	local := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	kind, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "none":
		return func(context.Context) error { return nil }, nil
	case port == 0 && (text == "tcp" || strings.HasPrefix(text, "/")):
		return nil, fmt.Errorf("%q: the port is unknown: want tcp://host:port, an HTTP URL, exec:line or none", text)
	case text == "tcp":
		return dials(local), nil
	case strings.HasPrefix(text, "/"):
		return gets("http://" + local + text), nil
	case kind == "exec" && strings.TrimSpace(rest) != "":
		return runs(rest), nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme == "tcp" && u.Port() != "" && u.Path == "":
		return dials(u.Host), nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return gets(text), nil
	}
	return nil, fmt.Errorf("%q: want tcp, tcp://host:port, /path, an HTTP URL, exec:line or none", text)
}

// dials connects and hangs up.
func dials(address string) Check {
	return func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// gets expects a status from 200 to 399. It uses a new connection each time, because an existing one proves nothing
// about new ones.
func gets(address string) Check {
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // so that the server does not see an aborted request
		_ = answer.Body.Close()                         // read-only
		if answer.StatusCode < 200 || answer.StatusCode >= 400 {
			return fmt.Errorf("GET %s: %s", address, answer.Status)
		}
		return nil
	}
}
