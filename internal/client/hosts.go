package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// hosts knows the addresses of the servers, and the order in which to try them.
type hosts struct {
	source  *Source                                                  // nil if the names never change
	lookup  func(ctx context.Context, host string) ([]string, error) // nil if the dialer takes names
	prefers func(name string) bool                                   // nil if none is preferred
	// Receives a value when there is a target, and holds one; nil if the client stays where it is.
	moves chan struct{}
	log   *slog.Logger

	mu        sync.Mutex
	names     []string                     // host:port
	members   []string                     // those in the configuration of the ensemble; nil before there is one
	version   uint64                       // the version of that configuration
	left      map[string]bool              // by name: it was a member and no longer is
	preferred map[string]bool              // by name: the user prefers it
	good      lifetime.Server              // the one that last gave the session
	found     map[string][]lifetime.Server // by name
	known     []lifetime.Server            // the last known addresses of all names together
	last      lifetime.Server              // the one tried last
	hungUp    bool                         // it has closed the connection
	// The one to move to; without an address it is any address of that name, and the zero value means none.
	target lifetime.Server
	// The one the next round begins with; likewise.
	first lifetime.Server
	// Whether the source returned an error when last queried, which was logged.
	failed bool
}

func newHosts(config *Config) *hosts {
	h := &hosts{
		source: config.Source, lookup: config.Lookup, prefers: config.Prefers, log: config.Log, names: config.Servers,
		found: make(map[string][]lifetime.Server), left: make(map[string]bool),
	}
	h.preferred = h.judge(h.names)
	if config.Rebalance > 0 {
		h.moves = make(chan struct{}, 1)
	}
	return h
}

// list returns all names.
func (h *hosts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(without(h.names, h.members), h.members...)
}

// without returns the names that are not among the others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// ask adopts the names that the source has now. If it has none, or does not answer within the limit, the names are
// kept.
func (h *hosts) ask(ctx context.Context, limit time.Duration) error {
	if h.source == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	names, err := h.source.Servers(limited)
	if err != nil && ctx.Err() != nil {
		return err // the session has ended, or Dial, which proves nothing about the source
	}
	judged := h.judge(names)
	h.mu.Lock()
	was, failed := h.names, h.failed
	if len(names) > 0 {
		h.names = names
		maps.Copy(h.preferred, judged)
		h.forget()
		h.redraw(without(was, h.members), without(names, h.members))
	}
	h.failed = err != nil
	h.mu.Unlock()
	if len(names) > 0 && !sameNames(names, was) {
		h.log.Info("zookeeper: the list of servers has changed", "source", h.source.Name, "servers", listed(names),
			"were", listed(was))
	}
	switch {
	case err == nil || failed:
	case len(names) > 0:
		h.log.Warn("zookeeper: some servers cannot be used", "source", h.source.Name, "error", err)
	case len(was) > 0:
		h.log.Warn("zookeeper: cannot look up the servers, keeping the previous ones", "source", h.source.Name, "error", err)
	}
	return err
}

// judge asks the user which names to prefer. It is called without mu, since the function is the user's.
func (h *hosts) judge(names []string) map[string]bool {
	judged := make(map[string]bool)
	for _, name := range names {
		if h.prefers != nil && h.prefers(name) {
			judged[name] = true
		}
	}
	return judged
}

// forget forgets what is known about names that are gone. The caller holds mu.
func (h *hosts) forget() {
	gone := func(name string) bool { return !slices.Contains(h.names, name) && !slices.Contains(h.members, name) }
	maps.DeleteFunc(h.found, func(name string, _ []lifetime.Server) bool { return gone(name) })
	maps.DeleteFunc(h.preferred, func(name string, _ bool) bool { return gone(name) })
	maps.DeleteFunc(h.left, func(name string, _ bool) bool { return gone(name) && name != h.good.Name }) // see kin
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// listed returns a list of names for a log, truncated if it is long.
func listed(names []string) []string {
	const most = 10
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// lookUp resolves all names concurrently, until ctx is done. If one is true, it stops as soon as one name is resolved.
// A name that is not resolved keeps its previous addresses. The errors are in the order of the names.
func (h *hosts) lookUp(ctx context.Context, one bool) (names []string, errs []error) {
	names = h.list()
	errs = make([]error, len(names))
	if h.lookup == nil {
		return names, errs
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lookups sync.WaitGroup
	for i, name := range names {
		lookups.Go(func() {
			host, port, _ := net.SplitHostPort(name) // package conn has joined them
			var addresses []string
			if addresses, errs[i] = h.lookup(ctx, host); errs[i] != nil {
				return
			}
			var servers []lifetime.Server
			for _, address := range addresses {
				server := lifetime.Server{Name: name, Address: net.JoinHostPort(address, port)}
				if !slices.Contains(servers, server) { // /etc/hosts may list one twice
					servers = append(servers, server)
				}
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
	return names, errs
}

// order returns all addresses in random order, so that the clients of a program that starts everywhere at the same time
// do not all begin with the same server. The address tried last does not come first, unless it is the only one. If none
// of the names has an address, those of the previous names are better than none.
//
// Members of the ensemble and other names alternate, beginning with the group that last gave the session. Therefore,
// addresses that lead nowhere, whether because the configuration names servers that the client cannot reach, or because
// the servers it was given are long gone, cost at most one attempt before one of the other group is tried. Addresses
// that the user prefers come before all others. The only one of them is tried again first if it has closed the
// connection itself, which costs little; if it was silent, holds have no time to lose.
func (h *hosts) order() []lifetime.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, second := h.shuffled(h.members), h.shuffled(without(h.names, h.members))
	if h.good.Name != "" && !slices.Contains(h.members, h.good.Name) {
		first, second = second, first
	}
	var all []lifetime.Server
	for i := range max(len(first), len(second)) {
		all = append(all, first[min(i, len(first)):min(i+1, len(first))]...)
		all = append(all, second[min(i, len(second)):min(i+1, len(second))]...)
	}
	if len(all) == 0 {
		all = h.known
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	slices.SortStableFunc(all, func(a, b lifetime.Server) int { return h.rank(a) - h.rank(b) })
	h.known = slices.Clone(all)
	peers := all // those that the last one may come behind
	if i := slices.IndexFunc(all, func(server lifetime.Server) bool { return h.rank(server) != h.rank(all[0]) }); i > 0 &&
		h.hungUp {
		peers = all[:i]
	}
	if len(peers) > 1 && peers[0] == h.last {
		copy(peers, peers[1:])
		peers[len(peers)-1] = h.last
	}
	return all
}

// rank is smaller for a server that the user prefers. The caller holds mu.
func (h *hosts) rank(server lifetime.Server) int {
	if h.preferred[server.Name] {
		return 0
	}
	return 1
}

// shuffled returns the addresses of the names in random order. The caller holds mu.
func (h *hosts) shuffled(names []string) (all []lifetime.Server) {
	for _, name := range names {
		if h.lookup == nil {
			all = append(all, lifetime.Server{Name: name, Address: name})
		}
		all = append(all, h.found[name]...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// gave records that the server tried last gave the session.
func (h *hosts) gave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.good = h.last
	if h.seeksFavorite() {
		h.drawAmong(h.kin())
	}
}

// tries records that a server is about to be tried.
func (h *hosts) tries(server lifetime.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.hungUp = server, false
}

// lost records whether it was the server that closed the connection.
func (h *hosts) lost(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hungUp = lifetime.HungUp(why)
}

// Names that do not exist are looked up repeatedly for a while: those of pods appear only once the pods are ready.
const (
	patience    = 5 * time.Second
	lookupPause = 250 * time.Millisecond
)

// requireAddress waits until a name has an address. It fails if the name servers have answered for a while that the
// names do not exist, which is more often a typo than an outage. For a source of names or a name server that fails or
// does not answer, it waits until ctx is done.
func (h *hosts) requireAddress(ctx context.Context, asking time.Duration) error {
	missing := time.Now() // since when the names do not exist
	for {
		sourceErr := h.ask(ctx, asking)
		limited, cancel := context.WithTimeout(ctx, patience)
		_, errs := h.lookUp(limited, true)
		cancel()
		if len(h.order()) > 0 {
			return nil
		}
		if sourceErr != nil {
			errs = append(errs, sourceErr)
		}
		err := fmt.Errorf("none of the server names resolves: %w", errors.Join(errs...))
		if slices.ContainsFunc(errs, isResolverFault) {
			missing = time.Now()
		} else if time.Since(missing) >= patience {
			return err
		}
		if session.Sleep(ctx, lookupPause) != nil {
			return session.WithReason(context.Cause(ctx), session.AsReason(err))
		}
	}
}

// isResolverFault reports whether err is anything other than the answer that a name does not exist.
func isResolverFault(err error) bool {
	var failed *net.DNSError
	return !errors.As(err, &failed) || !failed.IsNotFound
}

// Servers yields what to try in a round, and records each server.
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

// round gets the names, resolves them, and returns what to try. Both together take at most as long as one attempt to
// connect, and getting the names at most half of that. A failed lookup is recorded like a failed attempt.
func (c *core) round(ctx context.Context) []lifetime.Server {
	limited, cancel := context.WithTimeout(ctx, c.ensemble.ConnectTimeout())
	defer cancel()
	err := c.hosts.ask(ctx, c.ensemble.ConnectTimeout()/2)
	names, errs := c.hosts.lookUp(limited, false)
	if len(names) == 0 {
		names, errs = []string{c.hosts.source.Name}, []error{err}
	}
	for i, err := range errs {
		if err != nil && ctx.Err() == nil {
			c.Failed(names[i], err)
		}
	}
	return c.hosts.next()
}
