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

// serverPatience bounds each query of a server. A hanging server is worth a line of output, not a minute of waiting.
const serverPatience = 5 * time.Second

// connectString returns the connect string given by the user.
func (a *app) connectString() string {
	return cmp.Or(a.connect.servers, os.Getenv("ZOOKEEPER_SERVERS"))
}

// servers returns the addresses in the connect string, resolving SRV records, and the chroot.
func (a *app) servers(ctx context.Context) (addresses []string, chroot string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("no answer within %v", serverPatience))
	defer cancel()
	return conn.Servers(ctx, a.connectString())
}

// chroot returns the path after the servers.
func (a *app) chroot() string {
	hosts := a.connectString()
	if _, rest, ok := strings.Cut(hosts, "://"); ok {
		hosts = rest
	}
	_, path, _ := strings.Cut(hosts, "/")
	return "/" + path
}

// dialOne connects to one server and to no other.
func (a *app) dialOne(ctx context.Context, server, chroot string, more ...conn.Option) (*conn.Client, error) {
	options, err := a.connect.options()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("no session within %v", serverPatience))
	defer cancel()
	return conn.Dial(ctx, server+chroot, append(append(options, conn.WithLogger(silent)), more...)...)
}

// What a server without a majority answers to srvr, and what that means.
const (
	notServing = "not currently serving requests"
	noMajority = "it does not serve requests: it is starting, or cannot reach a majority of the servers"
)

// servesNot returns a line for each server that explains why it grants no session. With a single server, it omits what
// the error already contains.
func (a *app) servesNot(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	addresses, _, err := a.servers(ctx)
	if err != nil {
		return "" // the original error covers it
	}
	lines := make([]string, len(addresses))
	var asking sync.WaitGroup
	for i, server := range addresses {
		asking.Go(func() {
			role, err := a.word(ctx, server, "srvr")
			switch {
			case errors.Is(err, errForbidden):
				lines[i] = "it answers, but allows no status queries"
			case err != nil && len(addresses) > 1:
				lines[i] = err.Error()
			case strings.Contains(role, notServing):
				lines[i] = noMajority
			case err == nil:
				lines[i] = "it is serving as " + field(role, "Mode")
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

// word sends a four-letter word to a server (host:port) and returns the answer.
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
	defer c.Close()                                                          //nolint:errcheck // the answer has been read
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) }) // so that a signal ends the wait, too
	defer stop()
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
}

// sessions asks every server for its sessions. Only the leader knows all of them.
func (a *app) sessions(ctx context.Context) sessions {
	s := sessions{known: map[int64]bool{}}
	addresses, _, _ := a.servers(ctx) // without them nothing is known
	for _, server := range addresses {
		dump, err := a.word(ctx, server, "dump")
		if err != nil {
			continue
		}
		for _, id := range dumped(dump) {
			s.known[id] = true
		}
		role, err := a.word(ctx, server, "srvr")
		s.complete = s.complete || err == nil && leads(field(role, "Mode"))
	}
	return s
}

func leads(mode string) bool { return mode == "leader" || mode == "standalone" }

// dumped returns the sessions in an answer to dump. It stops before the list of ephemeral nodes, whose sessions may
// have ended.
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

// field returns the value of the line "name: value" in an answer.
func field(answer, name string) string {
	for line := range strings.Lines(answer) {
		if value, is := strings.CutPrefix(line, name+": "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
