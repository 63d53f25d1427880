package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
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

// requireAddress fails if no name has an address: a misspelt name is told at once, not after a timeout.
func (h *hosts) requireAddress(ctx context.Context, patience time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	errs := h.lookUp(limited, true)
	if len(h.order()) > 0 {
		return nil
	}
	err := fmt.Errorf("no server name resolves: %w", errors.Join(errs...))
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
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
