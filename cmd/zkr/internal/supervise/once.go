package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
)

// Once is the record of the runs that have succeeded: a node next to the lock that holds the last value of --once.
type Once struct {
	client  *conn.Client
	path    string
	value   string
	version int32 // of the node when it was read
}

// NewOnce returns the record for a lock.
func NewOnce(client *conn.Client, lock, value string) *Once {
	return &Once{client: client, path: lock + "-done", value: value}
}

// done reads the record under the lock. It reports whether a run with the value has succeeded, and when a run last did.
// The last holder wrote the record before it released the lock, and this session has seen the lock released, so the
// record is not stale.
func (o *Once) done(ctx context.Context) (already bool, succeeded time.Time, err error) {
	data, stat, err := o.client.Get(ctx, o.path)
	if errors.Is(err, zk.ErrNoNode) {
		return false, succeeded, o.client.CreateAll(ctx, o.path, nil)
	}
	if err != nil {
		return false, succeeded, err
	}
	o.version = stat.Version
	if len(data) > 0 {
		succeeded = time.UnixMilli(stat.Mtime)
	}
	if last := string(data); last > o.value {
		return false, succeeded, exit.With(exit.Failure,
			fmt.Errorf("--once %s: the record %s says that %s is done, which is later: this machine is late, "+
				"or a clock is wrong; the program was not run; to run it anyway, delete the record", o.value, o.path, last))
	}
	return string(data) == o.value, succeeded, nil
}

// write writes the record if the lock is still held.
func (o *Once) write(h *zkrecipes.Hold) error {
	// While no server answers, the write waits for as long as the lock is held.
	op := zkrecipes.OpSet(o.path, []byte(o.value), o.version)
	op.Exact = true
	_, err := h.Txn(h.Context(), op)
	if errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if data, _, readErr := o.client.Get(ctx, o.path); readErr == nil && string(data) == o.value {
			return nil
		}
	}
	return err
}

// record writes the record of a program that has succeeded, and returns the exit status. A program that was asked to
// stop may have exited with 0 before its work was done.
func (r *Runner) record(t *Target, g *Grant, end Ending) int {
	if t.Once == nil || end.Code != 0 {
		return end.Code
	}
	if end.Asked || end.Revoked {
		r.events.say(slog.LevelWarn, "unrecorded", fields{ReasonKey: "asked to stop"},
			"the run is not recorded in %s, so the next run repeats it", t.Once.path)
		return end.Code
	}
	err := t.Once.write(g.parts[0])
	if err == nil {
		return 0
	}
	r.events.say(slog.LevelError, "unrecorded", fields{ReasonKey: err.Error()},
		"the program succeeded, but this is not recorded in %s, so the next run repeats it", t.Once.path)
	if g.Err() != nil || errors.Is(err, zkrecipes.ErrFenced) {
		return exit.Lost
	}
	return exit.Failure
}
