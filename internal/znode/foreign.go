package znode

import (
	"context"
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// refuseForeign looks at the children that are no contenders. It returns an error if one of them looks like the contender
// of another library or recipe: an ephemeral node that ends in ten digits. That one may hold what the caller asks for, and
// would not see the caller's contender. Other children are skipped, which is logged once.
//
// The listing shows no owners, so each child that ends in ten digits is read every time. Only a lock with such children
// pays for that.
func (q *Queue) refuseForeign(ctx context.Context, s *session.Session, children []string) error {
	if len(children) == 0 {
		return nil
	}
	for _, name := range children {
		if !looksSequential(name) {
			continue
		}
		exists, stat, err := s.Exists(ctx, q.Path()+"/"+name)
		if err != nil {
			return err
		}
		if exists && stat.EphemeralOwner != 0 { // a container's is 0 as well
			wayOut := "let one of the two use another path"
			if _, kazoos := parse(name, []string{KazooLock, KazooRead}); kazoos && !q.sharedWithKazoo() {
				wayOut = "it is kazoo's: share the path by the option WithKazoo, or " + wayOut
			}
			return &session.OpError{Op: "queue", Path: q.Child(name), Err: fmt.Errorf(
				"%w: it is ephemeral and ends in ten digits, but is not named %s: %s",
				zkrecipes.ErrForeignContender, strings.Join(q.kinds, " or "), wayOut)}
		}
	}
	q.skipped.Do(func() {
		s.Go(func(context.Context) { // the caller does not wait for a logger
			q.Client().Logger().Warn("zookeeper: children that are no contenders are skipped",
				"path", q.Path(), "kinds", strings.Join(q.kinds, " "), "children", children[:min(len(children), 5)], "of", len(children))
		})
	})
	return nil
}
