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

// Tx is one attempt of [UpdateAll], to be passed to [Value.Read] and [Value.Write]. It must not be used by several
// goroutines at once, nor after fn returns.
type Tx struct {
	client *client.Client
	draft  *record.Draft
}

// UpdateAll changes several values atomically, for example to move an amount between two accounts. It calls fn, which
// reads and writes values with the Tx, and then applies all writes in one transaction, or none. If another client has
// written a value in the meantime that fn read, the transaction fails and UpdateAll calls fn again, so concurrent calls
// take effect as if they ran one after another.
//
// fn may be called any number of times, and must have no other effect. A single call may see values from different
// moments, but then what it writes and returns does not count: even if fn returns an error or writes nothing, a
// transaction checks that what it read is the servers' state, and otherwise fn is called again.
//
// A call takes a round trip for each value, one after another, and one for the transaction. Because servers cannot
// check that a node is missing, a value that fn finds missing and does not write is created and deleted in the
// transaction, which watches notice; its missing parents are created as well. A value with the data version -1, which
// only other clients leave behind, is rewritten with its own data if fn only reads it.
//
// UpdateAll compares data versions. Only a node that is deleted, recreated and written the same number of times in the
// meantime is mistaken for the one that was read.
//
// Errors: a nil client or fn, at once; an error from fn, in which case nothing was written; data that a codec cannot
// decode or encode, if fn returns that; ErrUnknownOutcome if the reply was lost and the nodes do not show whether this
// call wrote them, as in [Value.Update]; ErrTooLarge if the transaction does not fit into one request; otherwise the
// server's error.
//
// Source: software transactional memory, as in package concurrency of etcd.
func UpdateAll(ctx context.Context, c *conn.Client, fn func(tx *Tx) error) error {
	switch {
	case c == nil:
		return errors.New("update all: client is nil: want one made by conn.Dial")
	case fn == nil:
		return errors.New("update all: the function is nil: want one that reads and writes values")
	case ctx == nil:
		return fmt.Errorf("update all: %w", session.ErrNoContext)
	}
	inner := (*client.Client)(c)
	return record.Joint{Client: inner, Next: func(d *record.Draft) error { return fn(&Tx{inner, d}) }}.Do(ctx)
}

// Read returns the value within a transaction: what tx itself has written, or otherwise what the node holds. If the
// node is missing, Read returns the zero value and no error.
//
// Errors: a client with another connection or root than UpdateAll's; data that the codec does not decode; the server's
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
// Errors: as for [Value.Read], except that nothing is decoded; a value that the codec cannot encode.
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
