package zktest

import (
	"crypto/sha1"
	"crypto/tls"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// Option configures a server.
type Option interface{ apply(c *config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	ensemble.Settings
	listen       string // address
	inMemory     bool   // without a listener
	reap         time.Duration
	tls          *tls.Config
	words        []string // words that are answered; nil for all
	release      Release
	history      int
	latency      time.Duration
	writeLatency time.Duration
	deviations   Deviation
	onViolation  func(error)
}

func defaults() config {
	return config{
		Settings: ensemble.Settings{
			Tick: 2 * time.Second, Size: 1, MaxBuffer: defaultMaxBuffer,
			Access: access.Policy{Hash: sha1.New},
		},
		listen: "127.0.0.1:0", reap: time.Minute, release: Release39, history: 1 << 16,
	}
}

const (
	largestBuffer  = math.MaxInt32                    // lengths have 32 bits
	longestTimeout = math.MaxInt32 * time.Millisecond // so have timeouts, in milliseconds
)

// defaultMaxBuffer is the default maximum length of a request, in bytes.
const defaultMaxBuffer = 1<<20 - 1

func (c *config) check() error {
	if c.Tick < time.Millisecond || c.Tick > longestTimeout/2 {
		return fmt.Errorf("zktest: tick time %v: want 1ms to %v", c.Tick, longestTimeout/2)
	}
	if c.reap <= 0 {
		return fmt.Errorf("zktest: container check interval %v is not positive", c.reap)
	}
	if c.NeverUsed < 0 {
		return fmt.Errorf("zktest: containers never used for %v: want 0 or more", c.NeverUsed)
	}
	if c.history < 0 {
		return fmt.Errorf("zktest: a history of %d transactions: want 0 or more", c.history)
	}
	if c.listen == "" && !c.inMemory {
		return errors.New("zktest: the address to listen on is empty: want host:port, or InMemory")
	}
	if c.Size < 1 || c.Size > 255 {
		return fmt.Errorf("zktest: %d fronts: want 1 to 255", c.Size)
	}
	if c.MaxBuffer < 1 || c.MaxBuffer > largestBuffer {
		return fmt.Errorf("zktest: requests of at most %d bytes: want 1 to %d", c.MaxBuffer, largestBuffer)
	}
	if c.Access.Super != "" && !strings.Contains(c.Access.Super, ":") {
		return fmt.Errorf("zktest: super user %q: want user:password", c.Access.Super)
	}
	for _, scheme := range c.Access.Required {
		if scheme == "ip" || !c.Access.Provides(scheme) { // every client has an address
			return fmt.Errorf(
				"zktest: scheme %q cannot be required: want digest, sasl with WithSASLUsers, or x509 with WithX509", scheme)
		}
	}
	for _, user := range c.Access.SASLSupers {
		if _, known := c.Access.Users[user]; !known {
			return fmt.Errorf("zktest: SASL super user %q is not one of WithSASLUsers", user)
		}
	}
	if c.latency < 0 || c.writeLatency < 0 {
		return fmt.Errorf("zktest: latency %v, write latency %v: want 0 or more", c.latency, c.writeLatency)
	}
	if c.MinTimeout == 0 {
		c.MinTimeout = 2 * c.Tick
	}
	if c.MaxTimeout == 0 {
		c.MaxTimeout = 20 * c.Tick
	}
	if c.MinTimeout < time.Millisecond || c.MinTimeout > min(c.MaxTimeout, longestTimeout) {
		return fmt.Errorf("zktest: session timeouts of %v to %v: want the shortest first, and that from 1ms to %v",
			c.MinTimeout, c.MaxTimeout, longestTimeout)
	}
	var err error
	c.Traits, err = proto.TraitsOf(string(c.release))
	c.Access.IPv6 = c.Traits.IPv6
	return err
}

// WithTickTime sets the length of a tick; the default is 2 seconds. Session timeouts are at least two ticks and at most
// twenty, and sessions expire only on multiples of the tick, measured from when the server started.
func WithTickTime(d time.Duration) Option { return option(func(c *config) { c.Tick = d }) }

// WithSessionTimeouts sets the range of session timeouts; the default is two to twenty ticks.
func WithSessionTimeouts(shortest, longest time.Duration) Option {
	return option(func(c *config) { c.MinTimeout, c.MaxTimeout = shortest, longest })
}

// WithContainerCheck sets how often the server removes empty containers, and nodes whose time to live has expired; the
// default is 60 seconds.
func WithContainerCheck(d time.Duration) Option { return option(func(c *config) { c.reap = d }) }

// WithMaxNeverUsed makes the server also remove containers that never had a child and were last written more than d
// ago. By default these containers stay.
//
// Source: znode.container.maxNeverUsedIntervalMs.
func WithMaxNeverUsed(d time.Duration) Option { return option(func(c *config) { c.NeverUsed = d }) }

// WithExtendedTypes allows nodes with a time to live, which are disabled by default, as in ZooKeeper.
//
// Source: zookeeper.extendedTypesEnabled.
func WithExtendedTypes() Option { return option(func(c *config) { c.Extended = true }) }

// WithoutContainers makes the server behave as if it did not support createContainer, by answering unimplemented and
// closing the connection; the default is off.
func WithoutContainers() Option { return option(func(c *config) { c.NoContainers = true }) }

// WithMaxBuffer sets the maximum length of a request in bytes; the default is 1,048,575. If a request is longer, the
// server closes its connection. The transaction that ends a session may be twice as long; see [OnViolation].
//
// Source: jute.maxbuffer.
func WithMaxBuffer(n int) Option { return option(func(c *config) { c.MaxBuffer = n }) }

// WithQuotas rejects creates and sets that would exceed a hard limit below /zookeeper/quota. By default the server
// only counts, as ZooKeeper does.
//
// Source: zookeeper.enforceQuota.
func WithQuotas() Option { return option(func(c *config) { c.Quotas = true }) }

// WithFourLetterWords makes the server answer only these four-letter words, in addition to srvr; by default it answers
// all, as it does with "*".
//
// Source: 4lw.commands.whitelist.
func WithFourLetterWords(words ...string) Option {
	return option(func(c *config) { c.words = append([]string{}, words...) })
}

// WithSuperUser exempts a client that authenticates with this "user:password" in scheme digest from all access checks;
// by default there is no such user.
func WithSuperUser(credential string) Option {
	return option(func(c *config) { c.Access.Super = credential })
}

// WithDigest sets the hash of scheme digest, such as sha256.New; the default is [sha1.New]. With nil the server does
// not support the scheme: authentication fails, and ACLs cannot name it.
//
// Source: zookeeper.DigestAuthenticationProvider.digestAlg and enabled.
func WithDigest(hash func() hash.Hash) Option {
	return option(func(c *config) { c.Access.Hash = hash })
}

// WithSASLUsers lets clients authenticate as one of these users with SASL, mechanism DIGEST-MD5; the map contains each
// user's password. By default SASL is disabled. ACLs can then name the users with scheme sasl. A user named super has
// the permissions of every such user.
func WithSASLUsers(passwords map[string]string) Option {
	passwords = maps.Clone(passwords)
	return option(func(c *config) { c.Access.Users = passwords })
}

// WithSASLSuperUsers exempts clients that authenticate as one of these users of [WithSASLUsers] from all access checks;
// by default there are no such users.
//
// Source: zookeeper.superUser.
func WithSASLSuperUsers(users ...string) Option {
	users = slices.Clone(users)
	return option(func(c *config) { c.Access.SASLSupers = users })
}

// WithX509 makes the subject of a client's certificate an identity in the scheme x509; by default the certificate is
// not used for authentication. The configuration passed to [WithTLS] determines whether a client must present a
// certificate, and who must have signed it.
//
// Source: X509AuthenticationProvider.
func WithX509() Option { return option(func(c *config) { c.Access.X509 = true }) }

// WithRequiredAuth rejects requests from a connection that has not authenticated in one of the schemes: digest, sasl
// with [WithSASLUsers], or x509 with [WithX509]. Whatever the schemes, the server answers [CodeNeedsSASL] and closes
// the connection, but the session lives on until its timeout. By default no authentication is required.
//
// Source: zookeeper.enforce.auth.schemes, zookeeper.sessionRequireClientSASLAuth.
func WithRequiredAuth(schemes ...string) Option {
	schemes = slices.Clone(schemes)
	return option(func(c *config) { c.Access.Required = schemes })
}

// WithoutACLs disables access checks for all clients; by default access is checked. ACLs are still stored, and must
// still be valid.
//
// Source: zookeeper.skipACL.
func WithoutACLs() Option { return option(func(c *config) { c.Access.NoACLs = true }) }

// WithHistory sets how many of the most recent transactions [Server.History] keeps; the default is 65,536.
func WithHistory(n int) Option { return option(func(c *config) { c.history = n }) }

// WithListener sets the TCP address that the server listens on; the default is "127.0.0.1:0", a free loopback port.
func WithListener(addr string) Option {
	return option(func(c *config) { c.listen, c.inMemory = addr, false })
}

// WithFronts gives the server n addresses, which appear to clients as an ensemble; the default is 1. The first one
// listens at the address of [WithListener], the others on free ports of the same host. See [Front].
func WithFronts(n int) Option { return option(func(c *config) { c.Size = n }) }

// WithReadOnlyMode makes a front without a majority serve reads to clients that accept a read-only server; the default
// is off. See [Front.Isolate]. Answers keep the order of the requests, whereas a real server may send a refusal before
// the answers to earlier reads.
//
// Source: readonlymode.enabled with localSessionsEnabled, without which no client gets a session in that mode.
func WithReadOnlyMode() Option { return option(func(c *config) { c.ReadOnly = true }) }

// WithReconfig lets clients with write permission on /zookeeper/config change it with the operation reconfig; the
// default is off. It requires [WithFronts]. See [Server.Reconfigure] for the effect on the fronts, and for how to do
// the same without a client.
//
// Source: reconfigEnabled.
func WithReconfig() Option { return option(func(c *config) { c.Reconfig = true }) }

// WithTLS makes [Server.Listen], and therefore [Start], serve TLS with this configuration; the default is plain TCP. If
// you need a TLS listener next to a plain one, use tls.Listen and [Server.Serve].
func WithTLS(cfg *tls.Config) Option { return option(func(c *config) { c.tls = cfg }) }

// InMemory starts a server without a listener, as required in a testing/synctest bubble; by default the server has one.
// Clients connect with [Server.Dial].
func InMemory() Option { return option(func(c *config) { c.inMemory = true }) }

// OnViolation sets the function that receives the violations that the server finds: a broken invariant of its own; a
// request that matches a [Forbid] rule; the end of a session with so many ephemeral nodes that no real server would
// start again; or misuse by a client, which matches [ErrMisuse]. The function is called without locks, on one of the
// server's goroutines or in a call of one of its methods. It must not call [Server.Close]. By default [Run] fails the
// test, or logs a warning in case of misuse, while [Start] keeps violations for [Server.Violations].
func OnViolation(fn func(error)) Option { return option(func(c *config) { c.onViolation = fn }) }

// WithLatency delays every request before it is served; the default is 0. Requests on one connection keep their order,
// and those that arrive together wait together, not one after another, as long as they fit into 4 MiB. To change the
// latency later, use [Server.SetLatency].
func WithLatency(d time.Duration) Option { return option(func(c *config) { c.latency = d }) }

// WithWriteLatency delays writes, including handshakes, before they are applied; the default is 0. It adds to
// [WithLatency], and later requests on the connection wait behind the delayed ones. Use it for tests that pass on a
// real server only because that server is slow. To change the latency later, use [Server.SetWriteLatency].
func WithWriteLatency(d time.Duration) Option { return option(func(c *config) { c.writeLatency = d }) }
