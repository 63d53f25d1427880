package zktest

import (
	"errors"
	"fmt"
	"time"
)

// Option changes how a server behaves.
type Option interface{ apply(c *config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	listen       string // address; empty for none
	tick         time.Duration
	minTimeout   time.Duration
	maxTimeout   time.Duration
	reap         time.Duration
	neverUsed    time.Duration
	extended     bool
	noContainers bool
	release      Release
	traits       traits // of the release
	history      int
	super        string
	onViolation  func(error)
}

func defaults() config {
	return config{tick: 2 * time.Second, reap: time.Minute, release: Release39, history: 1 << 16}
}

func (c *config) check() error {
	if c.tick < time.Millisecond {
		return fmt.Errorf("zktest: tick time %v is below a millisecond", c.tick)
	}
	if c.reap <= 0 {
		return fmt.Errorf("zktest: container check interval %v is not positive", c.reap)
	}
	if c.minTimeout == 0 {
		c.minTimeout = 2 * c.tick
	}
	if c.maxTimeout == 0 {
		c.maxTimeout = 20 * c.tick
	}
	if c.minTimeout > c.maxTimeout {
		return errors.New("zktest: the shortest session timeout is above the longest")
	}
	var err error
	c.traits, err = c.release.traits()
	return err
}

// WithTickTime sets the unit of session expiry; default 2 s. Sessions get at least two ticks and at most twenty, and
// expire on a multiple of it, counted from the start of the server.
func WithTickTime(d time.Duration) Option { return option(func(c *config) { c.tick = d }) }

// WithSessionTimeouts replaces the range of session timeouts, two to twenty ticks.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return option(func(c *config) { c.minTimeout, c.maxTimeout = shortest, longest })
}

// WithContainerCheck sets how often empty containers, and nodes whose time to live is over, are removed; default 60 s.
func WithContainerCheck(d time.Duration) Option { return option(func(c *config) { c.reap = d }) }

// WithMaxNeverUsed removes containers, too, that never had a child for so long. By default they stay.
// Source: znode.container.maxNeverUsedIntervalMs.
func WithMaxNeverUsed(d time.Duration) Option { return option(func(c *config) { c.neverUsed = d }) }

// WithExtendedTypes allows nodes with a time to live, which ZooKeeper has switched off by default.
// Source: zookeeper.extendedTypesEnabled.
func WithExtendedTypes() Option { return option(func(c *config) { c.extended = true }) }

// WithoutContainers answers createContainer as a server that does not know it: unimplemented, and the connection is
// closed.
func WithoutContainers() Option { return option(func(c *config) { c.noContainers = true }) }

// WithSuperUser lets a client that authenticates with this "user:password" in scheme digest do everything.
func WithSuperUser(credential string) Option {
	return option(func(c *config) { c.super = digest(credential) })
}

// WithHistory sets how many transactions [Server.History] keeps; default 65,536, the newest.
func WithHistory(n int) Option { return option(func(c *config) { c.history = n }) }

// WithListener makes [Start] listen on a TCP address; [Run] does so by itself, on a free port of the loopback.
func WithListener(addr string) Option { return option(func(c *config) { c.listen = addr }) }

// InMemory makes [Run] do without a listener, as a testing/synctest bubble needs it: clients come in through
// [Server.Dial].
func InMemory() Option { return WithListener("") }

// OnViolation gets what the server finds wrong: one of its own invariants broken, a request that [Forbid] forbids, or
// a client doing what damages a real server, which matches [ErrMisuse]. It is called on a goroutine of the server,
// without locks. By default [Run] fails the test and [Start] keeps them for [Server.Violations] only.
func OnViolation(fn func(error)) Option { return option(func(c *config) { c.onViolation = fn }) }
