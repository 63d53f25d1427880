package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
)

// each query of a server takes at most so long. What hangs is worth a line, not a minute.
const serverPatience = 5 * time.Second

// connectString is what the user says of the ensemble.
func (a *app) connectString() string {
	return cmp.Or(a.connect.servers, os.Getenv("ZOOKEEPER_SERVERS"))
}

// servers are the addresses of the connect string, and the chroot behind them. SRV records are looked up.
func (a *app) servers(ctx context.Context) (addresses []string, chroot string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("no answer within %v", serverPatience))
	defer cancel()
	return conn.Servers(ctx, a.connectString())
}

// chroot is the path behind the servers.
func (a *app) chroot() string {
	hosts := a.connectString()
	if _, rest, ok := strings.Cut(hosts, "://"); ok {
		hosts = rest
	}
	_, path, _ := strings.Cut(hosts, "/")
	return "/" + path
}

// dialOne connects to one of the servers, and to no other.
func (a *app) dialOne(ctx context.Context, server, chroot string, more ...conn.Option) (*conn.Client, error) {
	options, err := a.connect.options()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("no session within %v", serverPatience))
	defer cancel()
	return conn.Dial(ctx, server+chroot, append(append(options, conn.WithLogger(silent)), more...)...)
}

// What a server without a majority says to srvr, and what that means.
const (
	notServing = "not currently serving requests"
	noMajority = "it does not serve: it is starting, or it has no contact with a majority of the servers"
)

// servesNot has a line for each server that says why it gives no session. What the error has said of a single one is left out.
func (a *app) servesNot(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addresses, _, err := a.servers(ctx)
	if err != nil {
		return "" // the error that led here says it
	}
	lines := make([]string, len(addresses))
	var asking sync.WaitGroup
	for i, server := range addresses {
		asking.Go(func() {
			role, err := a.word(ctx, server, "srvr")
			switch {
			case errors.Is(err, errForbidden):
				lines[i] = "it answers, and tells no more"
			case err != nil && len(addresses) > 1:
				lines[i] = err.Error()
			case strings.Contains(role, notServing):
				lines[i] = noMajority
			case err == nil:
				lines[i] = "it serves as " + field(role, "Mode")
			}
			if lines[i] != "" {
				lines[i] = fmt.Sprintf("\n  %s: %s", server, lines[i])
			}
		})
	}
	asking.Wait()
	return strings.Join(lines, "")
}

var errForbidden = errors.New("not allowed by 4lw.commands.whitelist")

// word sends a four-letter word to a server, host:port, and returns the answer.
func (a *app) word(ctx context.Context, server, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	config, err := a.connect.tls()
	if err != nil {
		return "", err
	}
	var c net.Conn
	if config == nil {
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", server)
	} else {
		c, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", server)
	}
	if err != nil {
		return "", err
	}
	defer c.Close() //nolint:errcheck // the answer has been read
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(c, 64<<20))
	switch text := string(answer); {
	case strings.Contains(text, "is not executed because it is not in the whitelist"):
		return "", fmt.Errorf("%s: %w", word, errForbidden)
	case err != nil && text == "":
		return "", err
	case text == "":
		return "", fmt.Errorf("%s: no answer", word)
	default:
		return text, nil
	}
}

// sessions are the sessions that the ensemble knows, as far as its servers report them.
type sessions struct {
	known    map[int64]bool
	complete bool // the leader has reported
	missing  error
}

// sessions asks all servers for their sessions. Only the leader knows all of them.
func (a *app) sessions(ctx context.Context) sessions {
	s := sessions{known: map[int64]bool{}}
	addresses, _, err := a.servers(ctx)
	errs := []error{err}
	for _, server := range addresses {
		dump, err := a.word(ctx, server, "dump")
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", server, err))
			continue
		}
		for _, id := range dumped(dump) {
			s.known[id] = true
		}
		role, err := a.word(ctx, server, "srvr")
		s.complete = s.complete || err == nil && leads(field(role, "Mode"))
	}
	s.missing = errors.Join(errs...)
	return s
}

func leads(mode string) bool { return mode == "leader" || mode == "standalone" }

// dumped are the sessions in an answer to dump. Below them it lists sessions with ephemeral nodes, which may be over.
func dumped(answer string) []int64 {
	answer, _, _ = strings.Cut(answer, "ephemeral nodes dump:")
	var ids []int64
	for word := range strings.FieldsSeq(answer) {
		if hex, is := strings.CutPrefix(word, "0x"); is {
			if id, err := strconv.ParseUint(hex, 16, 64); err == nil {
				ids = append(ids, int64(id))
			}
		}
	}
	return ids
}

// field is the value in the line "name: value" of an answer.
func field(answer, name string) string {
	for line := range strings.Lines(answer) {
		if value, is := strings.CutPrefix(line, name+": "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
