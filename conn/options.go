package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// Option configures [New] and [Dial].
type Option func(*options) error

type options struct {
	client.Config
	tls     *certificates // nil is none
	rawDial DialFunc
}

// DialFunc opens a connection to a server; [net.Dialer.DialContext] is one. It must return when its context is done.
// Closing the connection must unblock pending Read and Write calls, as package net requires. The client doesn't use
// deadlines, and a connection doesn't have to be buffered.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newOptions(opts []Option) (*options, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	o := &options{}
	o.SessionTimeout, o.Margin, o.Log = 15*time.Second, 1.0/20, slog.Default()
	o.ACL, o.Identity = zk.WorldACL(zk.PermAll), fmt.Sprintf("%s/%d", host, os.Getpid())
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("option %d is nil", i))
			continue
		}
		errs = append(errs, opt(o))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	o.Dial = o.dial
	if o.rawDial == nil {
		o.rawDial = (&net.Dialer{}).DialContext
		o.Lookup = net.DefaultResolver.LookupHost // which returns an address unchanged
	}
	return o, nil
}

// WithSessionTimeout sets the session timeout that the client requests, between 10 ms and 24 hours; the default is 15
// seconds. The server grants a timeout between 2 and 20 of its ticks; see [Session.Timeout]. A shorter timeout detects
// dead peers sooner but leaves less time to reconnect: below 10 seconds, a slow network or a long garbage collection on
// the server can make sessions expire. Below six of the ensemble's ticks, a leader that has been replaced may extend a
// deadline; see docs/design.md. Six ticks are 12 seconds with the usual tickTime of 2000, but 18 if zoo.cfg doesn't set
// it, because ZooKeeper's default is 3000.
func WithSessionTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d < 10*time.Millisecond || d > 24*time.Hour {
			return fmt.Errorf("session timeout %v: want between 10ms and 24h", d)
		}
		o.SessionTimeout = d
		return nil
	}
}

// WithConnectTimeout limits how long each attempt to connect to an address may take, including the time until its
// server grants the session and accepts the credentials; the default is 1 second or a sixth of the session timeout (of
// the granted one, once it is known), whichever is larger. The same limit applies to resolving the names before each
// round over the addresses.
//
// While all servers accept connections but grant no session in time, for example because thousands of clients return at
// the same time, the default doubles, up to two thirds of the session timeout.
func WithConnectTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("connect timeout %v: want more than 0", d)
		}
		o.ConnectTimeout = d
		return nil
	}
}

// WithMaxRequestSize sets the maximum size of a request in bytes, between 4 KiB and 1 GiB; the default is 1 MiB less 4
// KiB, which suits servers with the default jute.maxbuffer. Because servers would hang up on a larger request, it fails
// with [zkrecipes.ErrTooLarge] before it is sent. If the servers have a different jute.maxbuffer, set the size 4 KiB
// below it.
//
// The same jute.maxbuffer limits how many ephemeral nodes a session may have, including contenders, leases, kept nodes,
// members, and those of [Client.Create]. This is because the transaction that ends the session contains all their
// paths: if it is longer than 2 × jute.maxbuffer, servers cannot read it and never start again. Each node counts as the
// length of its path on the server in bytes, including the chroot, plus four. At half of that limit the client logs a
// warning, and above three quarters, which is 1,572,861 bytes by default, a create fails with
// [zkrecipes.ErrSessionFull]. This is enough for about 20,000 locks on paths of 15 to 20 bytes. The limit is per
// session, so if you need more, use another client.
func WithMaxRequestSize(bytes int) Option {
	return func(o *options) error {
		if bytes < 4<<10 || bytes > 1<<30 {
			return fmt.Errorf("request size %d: want between 4 KiB and 1 GiB", bytes)
		}
		o.MaxRequest = bytes
		return nil
	}
}

// WithMaxReplySize sets the maximum size of a reply in bytes, between 4 KiB and 1 GiB; the default is 256 MiB. If a
// reply is larger, only the call that requested it fails, with [zkrecipes.ErrTooLarge]. Servers themselves set no
// limit; for example, the list of a million children takes 50 MB. While it is being read, a reply takes up to five
// times its size in memory: 200 MB of data took 0.3 GB, 200 MB of 50-letter names took 0.5 GB, and of one-letter names
// 0.9 GB.
func WithMaxReplySize(bytes int) Option {
	return func(o *options) error {
		if bytes < 4<<10 || bytes > 1<<30 {
			return fmt.Errorf("reply size %d: want between 4 KiB and 1 GiB", bytes)
		}
		o.MaxReply = bytes
		return nil
	}
}

// WithMaxInFlight limits how many of this program's requests are in flight at a time, so that a burst of calls doesn't
// flood the servers. The limit is 1 or more; by default there is none. It applies to the calls of [Client] and
// [Session], and to each request of those that send several, such as [Client.DeleteAll]. Calls beyond the limit wait in
// FIFO order. If the context of a waiting call is done first, no request was sent, and the error describes what the
// call was waiting for. A request counts from when it is sent until the server answers or the connection is lost, even
// if its call returned earlier because its context was done.
//
// The limit does not apply to what the client and the recipes send on their own behalf: pings, the proof of liveness,
// contenders, grants, releases, transactions of a hold, kept nodes, values, watches and caches. Because they never wait
// behind your calls, the limit neither delays a release nor shortens a deadline.
func WithMaxInFlight(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return fmt.Errorf("%d requests in flight: want 1 or more", n)
		}
		o.MaxInFlight = n
		return nil
	}
}

// WithTickTime declares the ensemble's tickTime, as in its zoo.cfg; by default it is unknown. Set it if you know it,
// because [Session.ValidUntil] then allows 1.5 ticks where it otherwise allows a quarter of the session timeout; see
// docs/design.md. Never declare less than the servers have, which is 3 seconds if zoo.cfg doesn't set tickTime: holds
// could then end too late.
func WithTickTime(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("tick time %v: want more than 0", d)
		}
		o.Tick = d
		return nil
	}
}

// WithLeastTimeout declares the smallest session timeout that a server of the ensemble may grant. By default the client
// assumes the smallest that the session has been granted so far. Set it, for example to two ticks, if operators may
// lower maxSessionTimeout below [WithSessionTimeout] while clients run. Whenever the client asks a server to resume the
// session, [Session.ValidUntil] then assumes this timeout, counted from the request, until a server answers. The
// trade-off is that holds end if no server answers for that long, for example during a leader election that takes
// longer. A server that hangs up has not answered.
func WithLeastTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("least session timeout %v: want more than 0", d)
		}
		o.LeastTimeout = d
		return nil
	}
}

// WithSafetyMargin sets the fraction of the session timeout, between 0 and 0.3, that is subtracted from every
// deadline to allow for clocks that run at different rates; the default is 0.05, a twentieth.
func WithSafetyMargin(part float64) Option {
	return func(o *options) error {
		if !(part >= 0 && part <= 0.3) {
			return fmt.Errorf("safety margin %v: want between 0 and 0.3 of the session timeout", part)
		}
		o.Margin = part
		return nil
	}
}

// BackOff determines how long to wait before the next attempt. The policies of github.com/cenkalti/backoff, versions
// 4 and 5, implement it. A client uses one BackOff for one run of failures, from one goroutine at a time.
type BackOff interface {
	// NextBackOff returns the next pause; 0 means none, and a negative value means stop.
	NextBackOff() time.Duration
}

// WithBackOff sets the pauses between failed rounds over the servers' addresses, and between sessions that fail. By
// default they grow exponentially from 50 ms to a sixth of the session timeout, but at most 5 seconds, randomized by
// ±50 %, and never stop. While the client has holds, it halves these default pauses, but not those of a policy set
// here. If a policy says stop, the client starts a new one; if that one immediately says stop, too, or is nil, the
// pause is 5 seconds. The attempts end only when the client is closed.
func WithBackOff(newBackOff func() BackOff) Option {
	return func(o *options) error {
		if newBackOff == nil {
			return errors.New("back-off: nil function")
		}
		if newBackOff() == nil {
			return errors.New("back-off: the function returns a nil policy")
		}
		o.NewBackOff = func() lifetime.BackOff { return newBackOff() }
		return nil
	}
}

// WithLogger sets the logger; the default is [slog.Default] at the time New or Dial is called. The package
// documentation lists the records and their keys. To silence the client, pass a logger with slog.DiscardHandler.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) error {
		if log == nil {
			return errors.New("logger: nil")
		}
		o.Log = log
		return nil
	}
}

// WithTracer adds tracers, which receive acquisitions, holds, state changes, attempts to connect, and requests; there
// are none by default. It may be given several times. See [zkrecipes.Tracer].
//
// Errors: a tracer that is nil, or has no hook.
func WithTracer(tracers ...*zkrecipes.Tracer) Option {
	return func(o *options) error {
		var errs []error
		for _, tracer := range tracers {
			all, err := o.Tracers.With(tracer)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			o.Tracers = all
		}
		return errors.Join(errs...)
	}
}

// WithTLS connects over TLS; the default is plain TCP. The certificate must match the server's name in the connect
// string, unless the configuration has a ServerName.
func WithTLS(config *tls.Config) Option {
	return func(o *options) error {
		if config == nil {
			return errors.New("tls: nil configuration")
		}
		config := config.Clone()
		o.tls = &certificates{read: func() (*tls.Config, error) { return config, nil }}
		return nil
	}
}

// WithTLSFunc is like [WithTLS], but for certificates that change, such as those with a lifetime of hours; the default
// is plain TCP. The constructor calls the config function once, and the client calls it again before each connection.
// Since an established connection keeps its configuration, replacing files doesn't interrupt it.
//
// If a later call of the function fails, for example between the writes of two files, the client logs the error and
// connects with the previous configuration. The function must return soon, because [WithConnectTimeout] cannot end it.
func WithTLSFunc(config func() (*tls.Config, error)) Option {
	return func(o *options) error {
		if config == nil {
			return errors.New("tls: nil function")
		}
		o.tls = &certificates{read: config}
		if _, err := o.tls.next(); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		return nil
	}
}

// WithDialer sets the function that connects to a server; the default is [net.Dialer.DialContext]. With this option the
// client doesn't resolve names itself, so the function receives the address as in the connect string. If a name has
// several addresses, the function chooses one of them.
func WithDialer(dial DialFunc) Option {
	return func(o *options) error {
		if dial == nil {
			return errors.New("dialer: nil function")
		}
		o.rawDial = dial
		return nil
	}
}

// WithServers sets a function that returns the servers; by default they are those in the connect string. Use it if
// servers come and go and something else, such as a service registry, knows where they are. A server is "host:port", or
// just "host" for port 2181. The client calls the function before each round of connection attempts, and never while it
// is connected. As a result, it finds new servers when it needs them, while a server that leaves the list keeps its
// clients until it stops.
//
// The function must return when its context is done, which happens after half of [WithConnectTimeout], because a round
// waits for it, and holds lose that time. If it fails or returns no server, the client keeps the last list, initially
// that of the connect string. Malformed servers are skipped. Of several such errors in a row, the client logs only the
// first.
//
// All servers must belong to one ensemble, which ZooKeeper gives clients no way to check. A client that is directed to
// another ensemble loses its session, and its locks there don't exclude the clients of the first one.
func WithServers(servers func(ctx context.Context) ([]string, error)) Option {
	return func(o *options) error {
		if servers == nil {
			return errors.New("servers: nil function")
		}
		o.Source = &client.Source{Name: "WithServers", Servers: func(ctx context.Context) ([]string, error) {
			list, err := servers(ctx)
			if err != nil {
				return nil, err
			}
			return withPorts(list)
		}}
		return nil
	}
}

// WithEnsembleTracking follows the dynamic configuration of the ensemble, as Curator's EnsembleTracker does; it is off
// by default. Use it if operators add and remove servers with reconfig while clients run. The client watches
// /zookeeper/config, even below a chroot, and tries the servers listed there in addition to those of the connect string
// or [WithServers]. Tracking by itself doesn't make the client leave a server that answers.
//
// The client uses each server's client address, or with [WithTLS] its secure one if there is one (ZooKeeper 3.10). It
// replaces 0.0.0.0 with the host, or hosts, that the other servers use. Servers without a client address, as in a
// static configuration, are skipped. If clients reach the servers by another route, such as a proxy, the configured
// addresses may be unreachable, and the client then alternates between them and the given servers.
//
// A configuration with a smaller version than an earlier one is ignored. Beyond that, ZooKeeper gives clients no way to
// distinguish ensembles. Use TLS, because whoever may reconfigure the ensemble can direct clients to any server, which
// then receives their credentials.
func WithEnsembleTracking() Option {
	return func(o *options) error {
		o.Members = func(config []byte) (uint64, []string, error) { return membersOf(string(config), o.tls != nil) }
		return nil
	}
}

// WithRebalance lets the client move to another server in order to balance load across servers; by default it never
// moves. The client picks a random moment within the given duration after one of these events:
//
//   - The client lost its connection. This is useful after a rolling restart, when all clients are on the servers that
//     restarted first; each client then picks a random server, possibly its current one. Choose a duration that covers
//     several such restarts, such as 10 minutes.
//   - The servers found by [WithEnsembleTracking] changed. Clients leave a server that has left the ensemble. If there
//     are more servers than before, some of each server's clients move to the new ones. For example, a fifth of them
//     move when a fifth server is added. The share is computed as in updateServerList of the Java client.
//
// To move, the client reconnects. The session and its holds survive, but the client is suspended for a few round trips.
// It moves only when no requests are outstanding, no hold was created with WithLossOnSuspend, and all holds are valid
// for more than half of the session timeout and more than 2.5 times [WithConnectTimeout]. With [WithLeastTimeout], a
// client that has holds also needs a least timeout of more than 1.6 times WithConnectTimeout. If these conditions
// aren't met at the chosen moment, the client keeps trying for another period of the given length, and then stays on
// its current server.
func WithRebalance(within time.Duration) Option {
	return func(o *options) error {
		if within <= 0 {
			return fmt.Errorf("rebalance within %v: want more than 0", within)
		}
		o.Rebalance = within
		return nil
	}
}

// WithPreferredServers sets which servers to try before all others, such as those in the client's own zone; by
// default there is no preference. The function receives a server as in the connect string, with its port, when the
// client learns of it.
//
// A client that can't reach a preferred server connects to another one, and stays there. With [WithRebalance] it keeps
// trying to return, each time within that period, and moves only among preferred servers. Each preferred server that
// drops packets costs [WithConnectTimeout] before others are tried, and holds lose that time.
func WithPreferredServers(prefer func(server string) bool) Option {
	return func(o *options) error {
		if prefer == nil {
			return errors.New("preferred servers: nil function")
		}
		o.Prefers = prefer
		return nil
	}
}

// WithSASL authenticates the client with a SASL mechanism on every new connection, before any credential from
// [WithAuth] and any other request; by default the client has no SASL identity. In ACLs, the identity has the scheme
// sasl.
//
// If a server refuses, does not prove its own identity, or does not support SASL, the client tries the next one. If
// all servers refuse, the session ends and calls fail with [zkrecipes.ErrAuthFailed].
func WithSASL(m sasl.Mechanism) Option {
	return func(o *options) error {
		if m == nil {
			return errors.New("sasl: nil mechanism")
		}
		if o.SASL != nil {
			return fmt.Errorf("sasl: both %v and %v: a connection has only one identity", o.SASL, m)
		}
		o.SASL = m
		return nil
	}
}

// WithAuth adds a credential, such as "digest" and "user:password"; there is none by default. It is sent on
// every new connection, before any request. WithAuth may be given several times.
func WithAuth(scheme, cred string) Option {
	return func(o *options) error {
		if scheme == "" {
			return errors.New("auth: empty scheme")
		}
		o.Auth = append(o.Auth, lifetime.Credential{Scheme: scheme, Credential: []byte(cred)})
		return nil
	}
}

// WithACL sets the ACL of every node created without an explicit one, notably those created by recipes; the default is
// world-accessible (world:anyone). The clients that share a queue need read, create and delete permission on its
// parent. To wait, they need read permission on each other's contenders; to revoke, write permission on the holder's
// contender. Clients with different credentials therefore need an ACL that names all of them. For ACLs that depend on
// the path, see [WithACLFunc].
func WithACL(acl []zk.ACL) Option {
	return func(o *options) error {
		if len(acl) == 0 {
			return errors.New("acl: empty list")
		}
		if err := session.CheckACL(acl); err != nil {
			return fmt.Errorf("acl: %w", err)
		}
		o.ACL = append([]zk.ACL(nil), acl...)
		return nil
	}
}

// WithACLFunc sets a function that returns the ACL of a node created without an explicit one; the default is the ACL
// from [WithACL] for every node. If the function returns an empty ACL, the one from WithACL is used. The function is
// called for every node that the client, its subs or its recipes create: contenders, members, values and the containers
// above them, including the chroot's. It does not change existing nodes; see [Client.SetACL].
//
// The function receives the path on the server, chroot included, but without what servers append to it. For example,
// the path of a contender is "/locks/a/_c_<uuid>-lock-", without its number. Because the function is called before each
// request, by several goroutines, and perhaps twice for one node, it must return immediately and always return the same
// ACL for a path.
//
// A create fails with zk.ErrInvalidACL, before sending any request, if an entry has no scheme or unknown permissions.
func WithACLFunc(acl func(path string) []zk.ACL) Option {
	return func(o *options) error {
		if acl == nil {
			return errors.New("acl: nil function")
		}
		o.ACLFunc = acl
		return nil
	}
}

// WithIdentity sets the name under which this client appears to others, as the data of its contenders, so that you can
// see in a queue which process is the holder and which ones are waiting; the default is "host/pid". An empty id is an
// error.
func WithIdentity(id string) Option {
	return func(o *options) error {
		if id == "" {
			return errors.New("identity: empty")
		}
		o.Identity = id
		return nil
	}
}

// dial opens a connection, with TLS if configured, within the context.
func (o *options) dial(ctx context.Context, server lifetime.Server) (net.Conn, error) {
	raw, err := o.rawDial(ctx, "tcp", server.Address)
	if err == nil && raw == nil {
		err = errors.New("the function given to WithDialer returned neither a connection nor an error")
	}
	if err != nil || o.tls == nil {
		return raw, err
	}
	config, failed := o.tls.next()
	if failed != nil {
		o.Log.Warn("zookeeper: cannot read the TLS configuration, keeping the previous one",
			"server", server.String(), "error", failed)
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(server.Name) // the name in the connect string
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		var noTLS tls.RecordHeaderError
		if lifetime.HungUp(err) || errors.As(err, &noTLS) {
			err = fmt.Errorf("TLS handshake: %w (is this a port without TLS? see WithTLS)", err)
		}
		return nil, errors.Join(err, raw.Close())
	}
	return secured, nil
}
