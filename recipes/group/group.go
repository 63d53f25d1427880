package group

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// Group is the set of members below one path. It is safe for concurrent use.
type Group struct {
	client *client.Client
	path   string
	layout Layout
}

// Option configures [New].
type Option func(*config) error

type config struct{ layout Layout }

// WithLayout sets how members are laid out in ZooKeeper; the default is [Curator]. All members below a path must use
// the same layout.
func WithLayout(l Layout) Option {
	return func(c *config) error {
		if l < Curator || l > KazooShallowParty {
			return fmt.Errorf("layout %d: want group.Curator, group.KazooParty or group.KazooShallowParty", int(l))
		}
		c.layout = l
		return nil
	}
}

// New returns the group at path without contacting the servers; the first Join creates missing parents. The path can be
// "/" only if the client has a chroot or was created with [conn.Client.Sub].
//
// Errors: a nil client; a path that is relative, malformed or the root of the servers; an invalid option.
func New(c *conn.Client, path string, opts ...Option) (*Group, error) {
	var cfg config
	client := (*client.Client)(c)
	errs := []error{recipe.Apply(&cfg, opts), paths.Validate(path)}
	if client == nil {
		errs = append(errs, errors.New("client is nil: create one with conn.Dial"))
	} else if path == "/" && client.Abs(path) == "/" {
		errs = append(errs, errors.New("path \"/\" is the root, which cannot be a group: want a path such as /app/workers"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	return &Group{client: client, path: path, layout: cfg.layout}, nil
}

// Path returns the group's path.
func (g *Group) Path() string { return g.path }

// child returns the path of a member's node.
func (g *Group) child(name string) string { return strings.TrimSuffix(g.path, "/") + "/" + name }

// Members returns the current members with their data. The view is at least as recent as the call. If members come and
// go faster than they can be read, Members keeps rereading until ctx is done. Because it leaves no watches behind, the
// view is never Current: the group may change at any time after AsOf. To follow the group, use [Group.Watch].
//
// Errors: context.Cause(ctx), ErrClosed, or the server's error.
func (g *Group) Members(ctx context.Context) (View, error) {
	if err := g.client.Sync(ctx, g.path); err != nil {
		return View{}, err
	}
	var view View
	err := g.client.InSession(ctx, "members", g.path, func(s *session.Session) error {
		r := &reader{group: g, session: s}
		now, err := r.read(ctx)
		if err == nil {
			view = now.now()
			view.Current = false
		}
		return err
	})
	return view, err
}
