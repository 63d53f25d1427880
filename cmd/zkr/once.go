package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
)

// once is the record of the runs that have succeeded: a node beside the lock with the last value of --once.
type once struct {
	client  *conn.Client
	path    string
	value   string
	version int32 // of the node as it was read
}

func newOnce(client *conn.Client, lock, value string) *once {
	return &once{client: client, path: lock + "-done", value: value}
}

// done reads the record, under the lock, and reports whether a run with the value has succeeded. The last holder wrote the
// record before it released the lock, and this session has seen the lock released: so the record is not out of date.
func (o *once) done(ctx context.Context) (bool, error) {
	data, stat, err := o.client.Get(ctx, o.path)
	if errors.Is(err, zk.ErrNoNode) {
		return false, o.client.CreateAll(ctx, o.path, nil)
	}
	if err != nil {
		return false, err
	}
	o.version = stat.Version
	if last := string(data); last > o.value {
		return false, exitWith(exitFailure, fmt.Errorf("--once %s: the record %s says that %s is done, which is later; this machine is late, "+
			"or a clock is wrong; the program was not run; to run it again, delete the record", o.value, o.path, last))
	}
	return string(data) == o.value, nil
}

// write writes the record if the lock is still held.
func (o *once) write(h *zkrecipes.Hold) error {
	// While servers do not answer, the write waits for as long as the lock is held.
	_, err := h.Txn(h.Context(), &zk.SetDataRequest{Path: o.path, Data: []byte(o.value), Version: o.version})
	if errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if data, _, readErr := o.client.Get(ctx, o.path); readErr == nil && string(data) == o.value {
			return nil
		}
	}
	return err
}

// record writes the record of a program that has succeeded, and returns the exit status. A program that was asked to stop may
// have ended with 0 before its work was done.
func (r *runner) record(t *target, g *grant, end ending) int {
	if t.once == nil || end.code != 0 {
		return end.code
	}
	if end.asked || end.revoked {
		r.events.say(slog.LevelWarn, "unrecorded", fields{"reason": "asked to stop"},
			"the program was asked to stop, so %s does not say that it has succeeded: the next run repeats it", t.once.path)
		return end.code
	}
	err := t.once.write(g.parts[0])
	if err == nil {
		return 0
	}
	r.events.say(slog.LevelError, "unrecorded", fields{"reason": err.Error()},
		"the program has succeeded, but %s does not say so: the next run repeats it: %v", t.once.path, err)
	if g.Err() != nil || errors.Is(err, zkrecipes.ErrFenced) {
		return exitLost
	}
	return exitFailure
}
