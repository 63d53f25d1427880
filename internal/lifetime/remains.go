package lifetime

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/wire"
)

// Remains is what servers may keep of a session that has ended here. Its nodes stay until it is closed or expires
// there. All its holds have ended, so it is safe to close it at once, and the waiters behind its nodes need not wait
// until it expires.
//
// Source: a restarted ensemble gives every session a full timeout; a client with id and password may close a session.
type Remains struct {
	Reason   zkrecipes.LossReason // for the end
	ID       int64                // 0 if no server has granted the session
	Password []byte
}

// Remains returns what servers may keep of a session that has ended.
func (l *Lifetime) Remains() Remains {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Remains{l.lost.Reason, l.id, l.password}
}

// errGone is why the connection is closed once the session is gone.
var errGone = errors.New("the session is gone")

// CloseSession closes the session at a server. It returns nil if the server reports that it has closed the session, or
// that there is none. If the server hangs up without an answer, the session may still exist.
func (e *Ensemble) CloseSession(ctx context.Context, server Server, left Remains) error {
	opts := *e.opts
	if left.Reason == zkrecipes.LossRefused { // a server that requires no credentials closes it without them
		opts.SASL, opts.Auth = nil, nil
	}
	began, limit := time.Now(), e.ConnectTimeout()
	who, err := opts.startExchange(ctx, server, began.Add(limit))
	if err != nil {
		return err
	}
	dial := func(ctx context.Context) (net.Conn, error) { return opts.Dial(ctx, server) }
	c, err := link.Dial(ctx, began, limit, server.String(), dial, &closer{})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.Drop)()
	c.Prepare(wire.ConnectFrame(0, time.Second, left.ID, left.Password)) // should it not be closed, it expires soon
	err = c.Serve(func() error {
		g, err := c.Granted()
		if err != nil {
			return err
		}
		if g.ID == 0 {
			return errGone
		}
		if err := opts.authenticate(c, who); err != nil {
			return err
		}
		code, err := c.End()
		return cmp.Or(err, wire.ErrorOf(code), errGone)
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// closer is the owner of a connection that ends with the handshake. The embedded owner is nil, since until then only
// these methods are called.
type closer struct {
	link.Owner
	xid int32
}

func (o *closer) NextXid() int32 {
	o.xid++
	return o.xid
}

func (*closer) Down(*link.Connection) {}
