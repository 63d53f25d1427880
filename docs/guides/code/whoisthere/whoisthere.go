// Package whoisthere divides work among the running processes.
package whoisthere

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// Work registers this process, and passes its share to take after each change of the group, until ctx is done.
func Work(
	ctx context.Context, client *conn.Client, id, address string, parts []string, take func(share []string),
) error {
	g, err := group.New(client, "/app/workers")
	if err != nil {
		return err
	}
	m, err := g.Join(ctx, id, []byte(address))
	if err != nil {
		return err // zkrecipes.ErrTaken: another process has the id
	}
	defer leave(ctx, m)
	for view, err := range g.Watch(ctx, group.WithPayloads(), group.WithSettle(100*time.Millisecond, time.Second)) {
		switch {
		case err != nil:
			return err
		case !view.Current:
			slog.Warn("the members may have changed", "since", view.AsOf) // others may take over this share
		default:
			take(Share(view.Members, id, parts))
		}
	}
	return nil
}

// leave makes the others take over at once, instead of after the session timeout.
func leave(ctx context.Context, m *group.Membership) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		slog.Warn("the others see this process until its session ends", "err", err)
	}
}

// Share returns the parts that belong to a member.
func Share(members []group.Member, id string, parts []string) (share []string) {
	for _, part := range parts {
		if Owner(members, part).ID == id {
			share = append(share, part)
		}
	}
	return share
}

// Owner returns the member with the largest hash for a part. If a member joins or leaves, only its own parts move.
func Owner(members []group.Member, part string) (owner group.Member) {
	var largest string
	for _, m := range members {
		hash := sha256.Sum256([]byte(m.ID + "/" + part))
		if h := string(hash[:]); h > largest {
			owner, largest = m, h
		}
	}
	return owner
}
