package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// hosts knows the addresses of the servers, and in which order to try them.
type hosts struct {
	names  []string                                                 // host:port
	lookup func(ctx context.Context, host string) ([]string, error) // nil: the dialer takes names

	mu    sync.Mutex
	found map[string][]lifetime.Server // by name
	last  lifetime.Server              // tried last
}

func newHosts(config *Config) *hosts {
	h := &hosts{names: config.Servers, lookup: config.Lookup, found: make(map[string][]lifetime.Server)}
	if h.lookup == nil {
		for _, name := range h.names {
			h.found[name] = []lifetime.Server{{Name: name, Address: name}}
		}
	}
	return h
}

// lookUp looks up all names at once, until ctx ends. With one, it ends as soon as one name is found. A name that is not
// found keeps the addresses that it had. The errors are in the order of the names.
func (h *hosts) lookUp(ctx context.Context, one bool) []error {
	errs := make([]error, len(h.names))
	if h.lookup == nil {
		return errs
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lookups sync.WaitGroup
	for i, name := range h.names {
		lookups.Go(func() {
			host, port, _ := net.SplitHostPort(name) // package conn has joined them
			var addresses []string
			if addresses, errs[i] = h.lookup(ctx, host); errs[i] != nil {
				return
			}
			var servers []lifetime.Server
			for _, address := range addresses {
				servers = append(servers, lifetime.Server{Name: name, Address: net.JoinHostPort(address, port)})
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.found[name] = servers
			if one {
				cancel()
			}
		})
	}
	lookups.Wait()
	return errs
}

// order returns all addresses in random order, so that the clients of a program that starts everywhere at once do not all begin
// with the same server. The address that was tried last is not the first, unless it is the only one.
func (h *hosts) order() []lifetime.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []lifetime.Server
	for _, name := range h.names {
		all = append(all, h.found[name]...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if len(all) > 1 && all[0] == h.last {
		all = append(all[1:], h.last)
	}
	return all
}

// tries notes that a server is about to be tried.
func (h *hosts) tries(server lifetime.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = server
}

// Names that do not exist are looked up again for a while: those of pods appear only when the pods are ready.
const (
	patience    = 5 * time.Second
	lookupPause = 250 * time.Millisecond
)

// requireAddress waits until a name has an address. It fails if the name servers have said for a while that there are no such names,
// which is more often a typing error than an outage. A name server that fails or does not answer is waited for until ctx ends.
func (h *hosts) requireAddress(ctx context.Context) error {
	missing := time.Now() // since when there are no such names
	for {
		limited, cancel := context.WithTimeout(ctx, patience)
		errs := h.lookUp(limited, true)
		cancel()
		if len(h.order()) > 0 {
			return nil
		}
		err := fmt.Errorf("no server name resolves: %w", errors.Join(errs...))
		if slices.ContainsFunc(errs, isResolverFault) {
			missing = time.Now()
		} else if time.Since(missing) >= patience {
			return err
		}
		if session.Sleep(ctx, lookupPause) != nil {
			return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
	}
}

// isResolverFault reports whether err does not say that a name does not exist.
func isResolverFault(err error) bool {
	var failed *net.DNSError
	return !errors.As(err, &failed) || !failed.IsNotFound
}

// Servers yields what to try in a round, and notes it.
func (c *core) Servers(ctx context.Context) iter.Seq[lifetime.Server] {
	return func(yield func(lifetime.Server) bool) {
		for _, server := range c.round(ctx) {
			if ctx.Err() != nil {
				return
			}
			c.tries(server)
			if !yield(server) {
				return
			}
		}
	}
}

// round looks up the names and returns what to try. The lookups together take at most as long as one attempt to connect. If a
// lookup fails, that is noted like an attempt that failed.
func (c *core) round(ctx context.Context) []lifetime.Server {
	limited, cancel := context.WithTimeout(ctx, c.ensemble.ConnectTimeout())
	defer cancel()
	for i, err := range c.hosts.lookUp(limited, false) {
		if err != nil && ctx.Err() == nil {
			c.Failed(c.hosts.names[i], err)
		}
	}
	return c.hosts.order()
}
