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
	"github.com/zkrecipes/zkrecipes/sasl"
)

// Option configures [Dial].
type Option func(*options) error

type options struct {
	client.Config
	tls     *certificates // nil is none
	rawDial DialFunc
}

// DialFunc opens a connection to a server; [net.Dialer.DialContext] is one. It must return when its context ends. Close of
// the connection must end a Read and a Write that wait, as package net says. Deadlines are not used, and a connection needs
// no buffer.
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
		o.Lookup = net.DefaultResolver.LookupHost // it returns an address as it is
	}
	return o, nil
}

// WithSessionTimeout asks for a session timeout, between 10 ms and 24 h; default 15 s. The server grants a timeout between 2
// and 20 of its ticks, see [Session.Timeout]. With a short timeout, dead peers are found sooner, and there is less time to
// reconnect: below 10 s a slow network or a long garbage collection on the server costs sessions. Below six ticks of the
// ensemble, 12 s by default, a leader that was replaced may prolong a deadline; see docs/design.md.
func WithSessionTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d < 10*time.Millisecond || d > 24*time.Hour {
			return fmt.Errorf("session timeout %v: want between 10ms and 24h", d)
		}
		o.SessionTimeout = d
		return nil
	}
}

// WithConnectTimeout bounds each attempt to connect to an address, until its server has given the session and accepted the
// credentials; default the larger of 1 s and a sixth of the session timeout. As soon as the granted timeout is known, the
// sixth is of that. The same bounds the lookup of the names before each round over the addresses.
func WithConnectTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("connect timeout %v: want more than 0", d)
		}
		o.ConnectTimeout = d
		return nil
	}
}

// WithMaxRequestSize sets how many bytes a request may have, between 4 KiB and 1 GiB; default 1 MiB less 4 KiB, for servers
// with the default jute.maxbuffer. A larger request is refused with [zkrecipes.ErrTooLarge] before it is sent, since servers would
// hang up on it. Set it 4 KiB below the jute.maxbuffer of the servers, if that is not the default.
//
// The same jute.maxbuffer limits how many ephemeral nodes a session may have: contenders and leases, kept nodes and members, and
// those of [Client.Create]. The transaction that ends the session has all their paths, and servers that cannot read it, because it is
// longer than 2 × jute.maxbuffer, never start again. A path takes its bytes on the server, chroot included, and four more. At half of
// that the client logs a warning. Above three quarters, 1,572,861 bytes by default, a create fails with [zkrecipes.ErrSessionFull].
// That is about 20,000 locks on paths of 15 to 20 bytes. A session of another client has room for as many.
func WithMaxRequestSize(bytes int) Option {
	return func(o *options) error {
		if bytes < 4<<10 || bytes > 1<<30 {
			return fmt.Errorf("request size %d: want between 4 KiB and 1 GiB", bytes)
		}
		o.MaxRequest = bytes
		return nil
	}
}

// WithMaxReplySize sets how many bytes a reply may have, between 4 KiB and 1 GiB; default 256 MiB. The call whose reply is
// larger fails with [zkrecipes.ErrTooLarge], and nothing else does. Servers have no limit of their own: a node with a million children
// makes a list of 50 MB.
func WithMaxReplySize(bytes int) Option {
	return func(o *options) error {
		if bytes < 4<<10 || bytes > 1<<30 {
			return fmt.Errorf("reply size %d: want between 4 KiB and 1 GiB", bytes)
		}
		o.MaxReply = bytes
		return nil
	}
}

// WithTickTime tells the tickTime of the ensemble, as in its zoo.cfg; default unknown. It lets [Session.ValidUntil] count with a
// tick and a half where it otherwise counts with a quarter of the session timeout; see docs/design.md.
func WithTickTime(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("tick time %v: want more than 0", d)
		}
		o.Tick = d
		return nil
	}
}

// WithLeastTimeout tells the least session timeout that a server of the ensemble may grant. By default it is the least that
// one has granted to the session. Set it, for example to two ticks, if operators may lower maxSessionTimeout below
// [WithSessionTimeout] while clients run. Then [Session.ValidUntil] counts with it, from when the client asks a server to
// resume the session until a server answers. The price: holds end if no server answers for that long, as in an election of
// a leader that takes longer. A server that hangs up has not answered.
func WithLeastTimeout(d time.Duration) Option {
	return func(o *options) error {
		if d <= 0 {
			return fmt.Errorf("least session timeout %v: want more than 0", d)
		}
		o.LeastTimeout = d
		return nil
	}
}

// WithSafetyMargin sets which part of the session timeout, between 0 and 0.3, is taken off every deadline, for clocks
// that run at different rates; default 0.05, a twentieth.
func WithSafetyMargin(part float64) Option {
	return func(o *options) error {
		if !(part >= 0 && part <= 0.3) {
			return fmt.Errorf("safety margin %v: want between 0 and 0.3 of the session timeout", part)
		}
		o.Margin = part
		return nil
	}
}

// BackOff says how long to wait before the next attempt. The policies of github.com/cenkalti/backoff, versions 4 and 5, are
// such. A client makes one for each row of failures, and uses it from one goroutine at a time.
type BackOff interface {
	// NextBackOff returns the next pause; 0 is none. A negative one says stop.
	NextBackOff() time.Duration
}

// WithBackOff sets the pauses between failed rounds over the addresses of the servers, and between sessions that fail. By default
// they grow exponentially from 50 ms to a sixth of the session timeout, at most 5 s, a random half more or less, without end. While
// the client has holds, it halves these pauses, but not those of a policy that is set here. If a policy says stop, a new one
// begins; if that one says stop at once, the pause is 5 s. Only Close ends the attempts.
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

// WithLogger sets where to log; default [slog.Default], as it is when New or Dial is called. See the package documentation for the
// records and their keys. A logger with slog.DiscardHandler is silent.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) error {
		if log == nil {
			return errors.New("logger: nil")
		}
		o.Log = log
		return nil
	}
}

// WithTracer adds tracers, which are told of acquisitions, holds, shards, changes of the state and requests; default none. May be
// given several times. See [zkrecipes.Tracer].
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

// WithTLS connects over TLS; default plain TCP. It verifies the name of the server in the connect string, unless the configuration has
// a ServerName.
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

// WithTLSFunc is [WithTLS] for certificates that change, such as those that live for hours; default plain TCP. It calls config once in
// the constructor, and then before each connection. A connection that is up keeps its own. So nothing is lost when files are replaced.
//
// If config fails later, as between the writes of two files, the client logs that, and connects with the configuration before.
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

// WithDialer sets how to reach a server; default [net.Dialer.DialContext]. The function is given the address as in the connect
// string: the client looks up no names then. If a name has several addresses, the function chooses one of them.
func WithDialer(dial DialFunc) Option {
	return func(o *options) error {
		if dial == nil {
			return errors.New("dialer: nil function")
		}
		o.rawDial = dial
		return nil
	}
}

// WithSASL shows who the client is by a mechanism of SASL, on every new connection, before any credential of [WithAuth] and any other
// request; default no identity. Access lists name that identity in the scheme sasl.
//
// If a server refuses, does not prove who it is, or has no SASL, the client goes on to the next one. If all servers refuse, the session
// ends, and calls fail with [zkrecipes.ErrAuthFailed].
func WithSASL(m sasl.Mechanism) Option {
	return func(o *options) error {
		if m == nil {
			return errors.New("sasl: nil mechanism")
		}
		if o.SASL != nil {
			return fmt.Errorf("sasl: both %v and %v: a connection has one identity", o.SASL, m)
		}
		o.SASL = m
		return nil
	}
}

// WithAuth adds a credential, such as "digest" and "user:password"; default none. It is sent on every new connection, before any
// request. May be given several times.
func WithAuth(scheme, cred string) Option {
	return func(o *options) error {
		if scheme == "" {
			return errors.New("auth: empty scheme")
		}
		o.Auth = append(o.Auth, lifetime.Credential{Scheme: scheme, Credential: []byte(cred)})
		return nil
	}
}

// WithACL sets the access list of every node that is created without its own, by the recipes above all; default open to the
// world. The clients that share a queue need read, create and delete on its parent. To wait, they need read on the contenders
// of each other; to revoke, write on the contender of the holder. So clients with different credentials need a list that
// names all of them.
func WithACL(acl []zk.ACL) Option {
	return func(o *options) error {
		if len(acl) == 0 {
			return errors.New("acl: empty list")
		}
		o.ACL = append([]zk.ACL(nil), acl...)
		return nil
	}
}

// WithIdentity sets the name under which this client appears to others, as the data of its contenders; default
// "host/pid".
func WithIdentity(id string) Option {
	return func(o *options) error {
		if id == "" {
			return errors.New("identity: empty")
		}
		o.Identity = id
		return nil
	}
}

// dial opens a connection, with TLS if asked for, within the context.
func (o *options) dial(ctx context.Context, server lifetime.Server) (net.Conn, error) {
	raw, err := o.rawDial(ctx, "tcp", server.Address)
	if err != nil || o.tls == nil {
		return raw, err
	}
	config, failed := o.tls.next()
	if failed != nil {
		o.Log.Warn("zookeeper: cannot read the TLS configuration, the one before is used", "server", server.String(), "error", failed)
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(server.Name) // which comes from the connect string
	}
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		var noTLS tls.RecordHeaderError
		if lifetime.HungUp(err) || errors.As(err, &noTLS) {
			err = fmt.Errorf("TLS handshake: %w (a port without TLS? see WithTLS)", err)
		}
		return nil, errors.Join(err, raw.Close())
	}
	return secured, nil
}
