package znode

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/layout"
)

// refuseForeign checks the children that are not contenders. It returns an error if one of them looks like a contender
// of another library or recipe: an ephemeral node whose name ends in ten digits. Such a node may hold what the caller
// tries to acquire, and its owner would not see the caller's contender. Other children are skipped, which is logged
// once.
//
// The listing shows no owners, so each child that ends in ten digits is read every time. Only locks with such children
// incur that cost.
func (q *Queue) refuseForeign(ctx context.Context, s *session.Session, children []string) error {
	if len(children) == 0 {
		return nil
	}
	for _, name := range children {
		if !layout.LooksSequential(name) {
			continue
		}
		exists, stat, err := s.Exists(ctx, q.Path()+"/"+name)
		if err != nil {
			return err
		}
		if exists && stat.EphemeralOwner != 0 { // that of a container is 0 too
			return &session.OpError{Op: "queue", Path: q.Child(name), Err: fmt.Errorf(
				"%w: it is ephemeral and ends in ten digits, but is not named %s: %s",
				zkrecipes.ErrForeignContender, strings.Join(q.kinds, " or "), q.wayOut(name))}
		}
	}
	q.skipped.Do(func() {
		s.Go(func(context.Context) { // the caller does not wait for a logger
			q.Client().Logger().Warn("zookeeper: skipping children that are not contenders",
				"path", q.Path(), "kinds", strings.Join(q.kinds, " "), "children", children[:min(len(children), 5)],
				"of", len(children))
		})
	})
	return nil
}

// wayOut returns how both can share the queue, or that they cannot.
func (q *Queue) wayOut(foreign string) string {
	is := func(kinds ...string) bool {
		_, ok := layout.Parse(foreign, kinds...)
		return ok
	}
	has := func(kind string) bool { return slices.Contains(q.kinds, kind) }
	way := ""
	switch {
	case q.alsoLists != nil: // nothing shares the door of a semaphore
	case has(Latch) && is(Lock):
		way = "it has a name like those of go-zookeeper's Lock and Curator's LeaderSelector: to share the path, " +
			"use the option WithLayout(election.Selector), or "
	case has(Lock) && is(Latch):
		way = "it has a name like those of an election: to share the path, " +
			"use an election with the layout election.Latch, or "
	case q.sharedWithKazoo():
	case (has(Lock) || has(Latch)) && is(KazooLock), has(Write) && is(KazooLock, KazooRead):
		way = "it is kazoo's: to share the path, use the option WithKazoo, or "
	}
	return way + "have one of the two use another path"
}
