// Package nightly runs a job once a night, however many processes try.
package nightly

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// Once runs job unless it has already succeeded for that night. A night is a date such as "2026-11-22".
func Once(
	ctx context.Context, client *conn.Client, night string, job func(context.Context, *zkrecipes.Hold) error,
) error {
	m, err := mutex.New(client, "/nightly/report")
	if err != nil {
		return err
	}
	return m.Do(ctx, func(ctx context.Context, h *zkrecipes.Hold) error {
		last, version, err := lastNight(ctx, client)
		if err != nil || last >= night {
			return err // or nil, if another process has done it
		}
		if err := job(ctx, h); err != nil {
			return err
		}
		// The record is written only if the lock is still held.
		_, err = h.Txn(ctx, zkrecipes.OpSet(done, []byte(night), version))
		return err
	})
}

// done is the node that records the last night that is done.
const done = "/nightly/report-done"

// lastNight reads the record, and creates it if it does not exist. The lock created the parent, /nightly.
func lastNight(ctx context.Context, client *conn.Client) (night string, version int32, err error) {
	data, stat, err := client.Get(ctx, done)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = client.Create(ctx, done, nil, conn.Persistent)
		return "", 0, err
	}
	return string(data), stat.Version, err
}
