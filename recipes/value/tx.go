package value

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/record"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Tx is a single attempt by [UpdateAll], to be passed to [Value.Read] and [Value.Write]. It must not be used by several
// goroutines at the same time, or after the function passed to UpdateAll returns.
type Tx struct {
	client *client.Client
	draft  *record.Draft
}

// UpdateAll changes several values atomically, for example to move an amount between two accounts. It calls fn, which
// reads and writes values with the Tx, and then sends the writes in one transaction, which applies either all of them
// or none. If another client has since written a value that fn read, the transaction fails and UpdateAll calls fn
// again. As a result, concurrent calls take effect as if they ran one after another.
//
// Because fn may be called any number of times, it must have no other side effects. A single call to fn may see values
// from different moments, but whatever it then writes or returns is discarded: even if fn returns an error or writes
// nothing, a transaction checks that the values it read are the servers' state, and if they are not, UpdateAll calls fn
// again.
//
// Each attempt takes a round trip for each value, one after another, and one for the transaction. Servers cannot check
// that a node is missing, so if fn finds a value missing and does not write it, the transaction creates the node and
// deletes it again. Watches on that node fire, and its missing parents are created as well. If fn only reads a value
// whose data version is -1, the transaction rewrites the node with the data it already holds; only other clients leave
// that version behind.
//
// UpdateAll compares data versions, so it can mistake a new node for the one that was read, but only if the node has
// since been deleted, recreated and written the same number of times.
//
// Errors: before sending any request, a nil client or fn; an error from fn, in which case nothing was written; data
// that a codec cannot decode or encode, if fn returns that error; ErrUnknownOutcome if the reply was lost and the nodes
// do not show whether this call wrote them, as in [Value.Update]; ErrTooLarge if the transaction does not fit into one
// request; or the server's error.
//
// Source: software transactional memory, as in package concurrency of etcd.
func UpdateAll(ctx context.Context, c *conn.Client, fn func(tx *Tx) error) error {
	switch {
	case c == nil:
		return errors.New("update all: client is nil: create one with conn.Dial")
	case fn == nil:
		return errors.New("update all: the function is nil: want one that reads and writes values")
	case ctx == nil:
		return fmt.Errorf("update all: %w", session.ErrNoContext)
	}
	inner := (*client.Client)(c)
	return record.Joint{Client: inner, Next: func(d *record.Draft) error { return fn(&Tx{inner, d}) }}.Do(ctx)
}

// Read returns the value within a transaction. If tx has already written the value, that is what Read returns;
// otherwise it returns what the node holds. If the node is missing, Read returns the zero value and no error.
//
// Errors: a client whose connection or root differs from UpdateAll's; data that the codec cannot decode; the server's
// error, which makes [UpdateAll] fail.
func (v *Value[T]) Read(tx *Tx) (T, error) {
	var none T
	if err := v.belongsTo(tx); err != nil {
		return none, err
	}
	data, exists, err := tx.draft.Read(v.path)
	if err != nil {
		return none, err
	}
	return v.decode(session.Node{Data: data, Exists: exists})
}

// Write replaces the value within a transaction. It reads the node first, unless the transaction already has.
//
// Errors: the same as [Value.Read], except that nothing is decoded; a value that the codec cannot encode.
func (v *Value[T]) Write(tx *Tx, x T) error {
	if err := v.belongsTo(tx); err != nil {
		return err
	}
	data, err := v.encode(x)
	if err != nil {
		return err
	}
	return tx.draft.Write(v.path, data)
}

func (v *Value[T]) belongsTo(tx *Tx) error {
	if err := session.RequireRoot(v.client.Root(), tx.client.Root()); err != nil {
		return v.failed("update all", fmt.Errorf("the value %w", err))
	}
	return nil
}
