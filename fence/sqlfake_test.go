package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// The driver "fake" is a database with the tables of the example and its three statements. It runs one transaction at a
// time, and a rollback undoes all of it.
func init() { sql.Register("fake", fakeDriver{}) }

type fakeDriver struct{}

// Open gives each connection its own database: use one connection.
func (fakeDriver) Open(string) (driver.Conn, error) {
	return &fakeConn{db: fakeDB{tokens: make(map[string]int64), balance: 100}}, nil
}

type fakeDB struct {
	tokens  map[string]int64
	balance int64
}

type fakeConn struct {
	mu     sync.Mutex
	db     fakeDB
	before *fakeDB // the state that a rollback restores; nil outside a transaction
}

func (c *fakeConn) Close() error { return nil }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("fake: not needed")
}

func (c *fakeConn) Begin() (driver.Tx, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = &fakeDB{tokens: maps.Clone(c.db.tokens), balance: c.db.balance}
	return c, nil
}

func (c *fakeConn) Commit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = nil
	return nil
}

func (c *fakeConn) Rollback() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db, c.before = *c.before, nil
	return nil
}

func (c *fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case query == raiseToken:
		resource, token, err := raiseArgs(args)
		if err != nil {
			return nil, err
		}
		c.db.tokens[resource] = max(c.db.tokens[resource], token)
		return &fakeRow{value: c.db.tokens[resource]}, nil
	case strings.HasPrefix(query, "SELECT balance"):
		return &fakeRow{value: c.db.balance}, nil
	}
	return nil, fmt.Errorf("fake: unknown query %q", query)
}

func (c *fakeConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if balance, ok := args[0].Value.(int64); ok && strings.HasPrefix(query, "UPDATE account") {
		c.db.balance = balance
		return driver.RowsAffected(1), nil
	}
	return nil, fmt.Errorf("fake: unknown statement %q %v", query, args)
}

func raiseArgs(args []driver.NamedValue) (resource string, token int64, err error) {
	if len(args) != 2 {
		return "", 0, fmt.Errorf("fake: %d arguments", len(args))
	}
	resource, isString := args[0].Value.(string)
	token, isInt := args[1].Value.(int64)
	if !isString || !isInt {
		return "", 0, fmt.Errorf("fake: arguments %v", args)
	}
	return resource, token, nil
}

// fakeRow is one row with one number.
type fakeRow struct {
	value int64
	read  bool
}

func (*fakeRow) Columns() []string { return []string{"value"} }
func (*fakeRow) Close() error      { return nil }

func (r *fakeRow) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	dest[0], r.read = r.value, true
	return nil
}

func TestSQL_RaiseGoesWithItsTransaction(t *testing.T) {
	db, err := sql.Open("fake", "")
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	db.SetMaxOpenConns(1)
	failed := errors.New("the disk of the account is full")
	require.ErrorIs(t, fenced(t.Context(), db, 9, func(*sql.Tx) error { return failed }), failed)
	require.NoError(t, writeBalance(t.Context(), db, 8, 1), "9 has read nothing and written nothing")
	require.ErrorIs(t, writeBalance(t.Context(), db, 7, 2), fence.ErrStale)
	balance, err := readBalance(t.Context(), db, 8)
	require.NoError(t, err)
	assert.Equal(t, int64(1), balance)

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	err = fence.New(inTx{tx}).Admit(t.Context(), "balance", zkrecipes.Token(10))
	require.ErrorIs(t, err, sql.ErrTxDone, "a store that fails admits nothing")
}
