package lifetime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// exchange is a SASL exchange that has begun, for one connection.
type exchange struct {
	sasl.Exchange
	first []byte // token
	again bool   // whether a server has refused the exchange before
}

// startExchange begins an exchange for a connection to the server, or returns nil without a mechanism. The connection
// is not open yet, because a mechanism may have to query other hosts, and a server allows little time for that.
func (o *Config) startExchange(ctx context.Context, server Server, deadline time.Time) (*exchange, error) {
	if o.SASL == nil {
		return nil, nil //nolint:nilnil // see above
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	host, _, err := net.SplitHostPort(server.Name)
	if err != nil {
		host = server.Name
	}
	e, first, err := o.SASL.Start(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("sasl %v: %w", o.SASL, err)
	}
	return &exchange{Exchange: e, first: first}, nil
}

// errStale reports that a server has refused an exchange whose mechanism keeps something, such as a ticket. What it
// keeps may have been made for a previous key, so this does not count as a refusal yet: serve tries again.
var errStale = errors.New("the server rejected the cached credentials")

// mostSteps bounds an exchange. Kerberos needs three.
const mostSteps = 10

// exchange authenticates the client before all other requests. They would otherwise run under a different identity, and
// a server that requires SASL ends the connection at the first of them.
//
// Whether the server refuses or the exchange fails here, the session moves to another server: this one may have
// outdated credentials, be the wrong server, or not support SASL yet.
func (o *Config) exchange(c *link.Connection, who *exchange) error {
	failed := func(err error) error { return fmt.Errorf("sasl %v: %w", o.SASL, err) }
	token := who.first
	for range mostSteps {
		answer, code, err := c.Exchange(token)
		switch {
		case err != nil:
			return failed(err)
		case code != 0:
			if e, ok := who.Exchange.(sasl.Refused); ok {
				e.Refused()
				if !who.again {
					return failed(fmt.Errorf("%w (%d)", errStale, code))
				}
			}
			return fmt.Errorf("%w: sasl %v (%d): see the server's log", zkrecipes.ErrAuthFailed, o.SASL, code)
		}
		var done bool
		if token, done, err = who.Step(answer); err != nil {
			return failed(err)
		}
		if done {
			return nil
		}
	}
	return failed(errors.New("the server did not finish the exchange within ten steps"))
}
