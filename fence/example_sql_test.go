package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// The table, once: CREATE TABLE fence (resource TEXT PRIMARY KEY, token BIGINT NOT NULL). The statement is for
// PostgreSQL. SQLite has max instead of GREATEST, and needs a busy_timeout. MySQL needs ON DUPLICATE KEY UPDATE and a
// SELECT.
const raiseToken = `INSERT INTO fence (resource, token) VALUES ($1, $2)
	ON CONFLICT (resource) DO UPDATE SET token = GREATEST(fence.token, excluded.token)
	RETURNING token`

// inTx is a fence.Store in the transaction that reads or writes what the lock protects. The row stays locked until the
// transaction ends, so the check and the access are one step, and are committed or rolled back together.
type inTx struct{ tx *sql.Tx }

func (s inTx) Raise(ctx context.Context, resource string, t zkrecipes.Token) (highest zkrecipes.Token, err error) {
	err = s.tx.QueryRowContext(ctx, raiseToken, resource, int64(t)).Scan(&highest)
	return highest, err
}

// fenced runs access in a transaction if token t is admitted.
func fenced(ctx context.Context, db *sql.DB, t zkrecipes.Token, access func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err = fence.New(inTx{tx}).Admit(ctx, "balance", t); err == nil {
		err = access(tx)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func readBalance(ctx context.Context, db *sql.DB, t zkrecipes.Token) (balance int64, err error) {
	err = fenced(ctx, db, t, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT balance FROM account").Scan(&balance)
	})
	return balance, err
}

func writeBalance(ctx context.Context, db *sql.DB, t zkrecipes.Token, balance int64) error {
	return fenced(ctx, db, t, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE account SET balance = $1", balance)
		return err
	})
}

// A store for database/sql that runs in the transaction of the access.
func Example_sql() {
	ctx := context.Background()
	db, err := sql.Open("fake", "") // your driver here
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()

	const ann, bob zkrecipes.Token = 33, 34
	readByAnn, err := readBalance(ctx, db, ann)
	fmt.Println("ann reads", readByAnn, err)
	readByBob, err := readBalance(ctx, db, bob) // ann's session has expired
	fmt.Println("bob reads", readByBob, err)
	fmt.Println("ann writes:", writeBalance(ctx, db, ann, readByAnn+10))
	fmt.Println("bob writes:", writeBalance(ctx, db, bob, readByBob+5))
	balance, err := readBalance(ctx, db, bob)
	fmt.Println("balance:", balance, err)
	// Output:
	// ann reads 100 <nil>
	// bob reads 100 <nil>
	// ann writes: "balance": stale token 33: 34 has been seen
	// bob writes: <nil>
	// balance: 105 <nil>
}
