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

// hosts knows the addresses of the servers, and in which order to try them.
type hosts struct {
	source  *Source                                                  // nil: the names stay
	lookup  func(ctx context.Context, host string) ([]string, error) // nil: the dialer takes names
	prefers func(name string) bool                                   // nil: all are alike
	moves   chan struct{}                                            // receives when there is a target; holds one. nil: the client stays where it is
	log     *slog.Logger

	mu        sync.Mutex
	names     []string                     // host:port
	members   []string                     // of the configuration of the ensemble; nil before there is one
	version   uint64                       // of that
	left      map[string]bool              // by name: it was a member, and is none
	preferred map[string]bool              // by name: the user prefers it
	good      lifetime.Server              // that gave the session last
	found     map[string][]lifetime.Server // by name
	known     []lifetime.Server            // what was found last for all names together
	last      lifetime.Server              // tried last
	target    lifetime.Server              // to move to; without an address it is any of the name, and zero is none
	first     lifetime.Server              // that the next round begins with; likewise
	failed    bool                         // the source had an error when it was asked last, which was logged
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

// ask takes over the names that the source has now. If it has none, or does not answer within the limit, the names stay.
func (h *hosts) ask(ctx context.Context, limit time.Duration) error {
	if h.source == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	names, err := h.source.Servers(limited)
	if err != nil && ctx.Err() != nil {
		return err // the session has ended, or Dial: that says nothing of the source
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
		h.log.Info("zookeeper: the servers are others now", "source", h.source.Name, "servers", listed(names), "were", listed(was))
	}
	switch {
	case err == nil || failed:
	case len(names) > 0:
		h.log.Warn("zookeeper: a part of the servers cannot be used", "source", h.source.Name, "error", err)
	case len(was) > 0:
		h.log.Warn("zookeeper: cannot ask for the servers, the last ones stay", "source", h.source.Name, "error", err)
	}
	return err
}

// judge asks the user which names to prefer. Called without mu, since the function is the user's.
func (h *hosts) judge(names []string) map[string]bool {
	judged := make(map[string]bool)
	for _, name := range names {
		if h.prefers != nil && h.prefers(name) {
			judged[name] = true
		}
	}
	return judged
}

// forget forgets what is known of names that are gone. Called with mu held.
func (h *hosts) forget() {
	gone := func(name string) bool { return !slices.Contains(h.names, name) && !slices.Contains(h.members, name) }
	maps.DeleteFunc(h.found, func(name string, _ []lifetime.Server) bool { return gone(name) })
	maps.DeleteFunc(h.preferred, func(name string, _ bool) bool { return gone(name) })
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// listed is a list of names for a log, cut short if it is long.
func listed(names []string) []string {
	const most = 10
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// lookUp looks up all names at once, until ctx ends. With one, it ends as soon as one name is found. A name that is not
// found keeps the addresses that it had. The errors are in the order of the names.
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
	return names, errs
}

// order returns all addresses in random order, so that the clients of a program that starts everywhere at once do not all begin
// with the same server. The address that was tried last is not the first, unless it is the only one. If none of the names has an
// address, those of the names before are better than nothing.
//
// The members of the ensemble and the other names take turns, and those begin that gave the session last. So addresses that lead
// nowhere, be it because the configuration names what the client cannot reach, or because the servers that it was given are long gone,
// cost one attempt at most before one of the others is tried. Among all of them, those that the user prefers come first.
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
	if len(all) > 1 && all[0] == h.last {
		all = append(all[1:], h.last)
	}
	return all
}

// rank is smaller for a server that the user prefers. Called with mu held.
func (h *hosts) rank(server lifetime.Server) int {
	if h.preferred[server.Name] {
		return 0
	}
	return 1
}

// shuffled returns the addresses of the names in random order. Called with mu held.
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

// gave notes that the server that was tried last gave the session. If the user prefers others, the client moves to one of them, which may be
// back by then.
func (h *hosts) gave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.good = h.last
	if h.target == (lifetime.Server{}) && !h.preferred[h.good.Name] && len(h.favorites(h.kin())) > 0 {
		h.drawAmong(h.kin())
	}
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

// requireAddress waits until a name has an address. It fails if the name servers have answered for a while that there
// are no such names, which is more often a typing error than an outage. It waits until ctx ends for a source of names
// or a name server that fails or does not answer.
func (h *hosts) requireAddress(ctx context.Context, asking time.Duration) error {
	missing := time.Now() // since when there are no such names
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

// round gets the names, looks them up, and returns what to try. Both together take at most as long as one attempt to
// connect, and the first at most half of that. A failed lookup is recorded like an attempt that failed.
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
