package znode

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// Revoke asks the contender at the head of the queue to release. A missing contender is not an error.
func (q *Queue) Revoke(ctx context.Context) error {
	queue, err := q.contenders(ctx)
	if err != nil || len(queue) == 0 {
		return err
	}
	return RevokeAt(ctx, q.Client(), q.Child(queue[0].Name))
}

// RevokeAt asks the contenders at paths to release. It is not an error if one of them has left. A contender of kazoo
// cannot be revoked, nor one that the client may not write, which is reported as an error after the others have been
// notified.
//
// Source: Curator's Revoker.
func RevokeAt(ctx context.Context, client *client.Client, paths ...string) error {
	var errs []error
	for _, path := range paths {
		if _, ok := layout.Parse(path[strings.LastIndexByte(path, '/')+1:], Lock, Latch, Read, Write, Lease); !ok {
			errs = append(errs,
				&session.OpError{Op: "revoke", Path: path, Err: errors.New("a holder that uses kazoo cannot be asked to release")})
			continue
		}
		if _, err := client.Set(ctx, path, []byte(layout.RevokeRequest), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			errs = append(errs, err)
			if !errors.Is(err, zk.ErrNoAuth) { // other errors would recur: an ACL is that of one contender
				break
			}
		}
	}
	return errors.Join(errs...)
}
