package zkkerberos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/zkrecipes/zkrecipes/sasl"
)

// Mechanism is GSSAPI for one principal. Several clients may share one.
type Mechanism struct {
	who     principal
	server  string // principal, in which _HOST is replaced by the host
	tickets *tickets
}

var _ sasl.Mechanism = (*Mechanism)(nil)

// Option configures a [Mechanism].
type Option func(*options) error

type options struct {
	config, server string
	noFAST         bool
	log            *slog.Logger
}

// WithServer sets the servers' principal; the default is "zookeeper/_HOST". _HOST is replaced with the host in the
// connect string. If the principal has no realm, [domain_realm] of the configuration determines it; failing that, it is
// the client's realm.
func WithServer(principal string) Option {
	return func(o *options) error {
		if p, err := parsePrincipal(principal); err != nil || p.realm == "" && strings.Contains(principal, "@") {
			return fmt.Errorf("server %q: want a principal, such as zookeeper/_HOST@EXAMPLE.COM", principal)
		}
		o.server = principal
		return nil
	}
}

// WithConfig sets the Kerberos configuration file; by default it is determined by KRB5_CONFIG as described in the
// package documentation.
func WithConfig(file string) Option {
	return func(o *options) error {
		if file == "" {
			return errors.New("configuration: empty file name")
		}
		o.config = file
		return nil
	}
}

// WithoutFAST stops offering FAST (RFC 6113) to the key distribution center. Old versions of Active Directory require
// this.
func WithoutFAST() Option {
	return func(o *options) error {
		o.noFAST = true
		return nil
	}
}

// WithLogger sets the logger for tickets that cannot be renewed, or whose renewal does not extend them; the default
// is [slog.Default] at the time the mechanism is created.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) error {
		if log == nil {
			return errors.New("logger: nil")
		}
		o.log = log
		return nil
	}
}

// Keytab returns the mechanism for a principal whose key is in the file. An empty principal stands for the only one in
// the file. A principal without a realm belongs to the default realm.
//
// Errors: the file or the configuration cannot be read, or has no such principal.
func Keytab(file, principal string, opts ...Option) (*Mechanism, error) {
	return newMechanism(&keytabSource{file, principal}, opts)
}

// Cache returns the mechanism for the principal that has tickets in a credential cache, such as
// "FILE:/tmp/krb5cc_1000". If name is empty, the environment names the cache, as described in the package
// documentation.
//
// Errors: the cache or the configuration cannot be read.
func Cache(name string, opts ...Option) (*Mechanism, error) {
	return newMechanism(&cacheSource{name}, opts)
}

// Password returns the mechanism for a principal with a password. The password stays in the memory of the
// process and is never sent over the network.
//
// Errors: an empty principal or password; the configuration cannot be read.
func Password(principal, password string, opts ...Option) (*Mechanism, error) {
	return newMechanism(&passwordSource{principal, password}, opts)
}

func newMechanism(s source, opts []Option) (*Mechanism, error) {
	o := &options{config: environmentConfig(), server: "zookeeper/_HOST", log: slog.Default()}
	var errs []error
	for i, opt := range opts {
		if opt == nil {
			errs = append(errs, fmt.Errorf("option %d is nil", i))
			continue
		}
		errs = append(errs, opt(o))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("zkkerberos: %w", err)
	}
	who, err := whoIs(s, o.config)
	if err != nil {
		return nil, fmt.Errorf("zkkerberos: %w", err)
	}
	return &Mechanism{who, o.server, newTickets(newCenter(s, who, o).ask, o.log)}, nil
}

// String returns "GSSAPI as" followed by the client's principal.
func (m *Mechanism) String() string { return "GSSAPI as " + m.who.String() }

// GoString keeps keys out of printed configurations.
func (m *Mechanism) GoString() string { return m.String() }

// Start obtains a ticket for the server at host, and begins an exchange.
func (m *Mechanism) Start(ctx context.Context, host string) (sasl.Exchange, []byte, error) {
	if ctx == nil {
		return nil, nil, errors.New("the context is nil: want one such as context.Background()")
	}
	server, err := parsePrincipal(strings.ReplaceAll(m.server, "_HOST", strings.ToLower(strings.TrimSuffix(host, "."))))
	if err != nil {
		return nil, nil, err
	}
	t, err := m.tickets.to(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	first, err := t.request(m.who)
	if err != nil {
		return nil, nil, err
	}
	return &exchange{ticket: t, refused: func() { m.tickets.drop(server, t) }}, first, nil
}

// Close stops renewing tickets, and afterwards Start fails with [ErrClosed]. A request to a key distribution center
// that is in progress ends by itself within seconds. Close the clients before the mechanism. Close always returns nil.
func (m *Mechanism) Close() error {
	m.tickets.close()
	return nil
}

// ErrClosed is returned by a mechanism that is closed.
var ErrClosed = errors.New("the Kerberos mechanism is closed")
