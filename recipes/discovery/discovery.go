package discovery

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// Discovery registers and finds services below one path. It is safe for concurrent use.
type Discovery struct {
	client *conn.Client
	base   string
	codec  Codec
}

// Option configures [New].
type Option func(*config) error

type config struct{ codec Codec }

// WithCodec sets the format in which instances are stored; the default is [Curator].
func WithCodec(c Codec) Option {
	return func(cfg *config) error {
		if c == nil {
			return errors.New("WithCodec: the codec is nil")
		}
		cfg.codec = c
		return nil
	}
}

// New returns a Discovery for the services below base without contacting the servers; the first Register creates
// missing parents. The base may be "/", which makes sense with a chroot or a client created with [conn.Client.Sub].
//
// Errors: a nil client; a path that is relative or malformed; an invalid option.
//
// Source: Curator's ServiceDiscovery.
func New(c *conn.Client, base string, opts ...Option) (*Discovery, error) {
	cfg := config{codec: Curator()}
	errs := []error{recipe.Apply(&cfg, opts), paths.Validate(base)}
	if c == nil {
		errs = append(errs, errors.New("client is nil: create one with conn.Dial"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &Discovery{client: c, base: base, codec: cfg.codec}, nil
}

// Base returns the path below which services are registered.
func (d *Discovery) Base() string { return d.base }

// folder returns the group of a service's instances.
func (d *Discovery) folder(service string) (*group.Group, error) {
	below, err := d.codec.Folder(service)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	g, err := group.New(d.client, path.Join(d.base, below))
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return g, nil
}

// Names returns the sorted names of all services. The list is at least as recent as the call. When a service's last
// instance leaves, its name remains listed until the servers remove its node, which takes about a minute.
//
// Errors: context.Cause(ctx), ErrClosed, or the server's error.
func (d *Discovery) Names(ctx context.Context) ([]string, error) {
	if err := d.client.Sync(ctx, d.base); err != nil {
		return nil, err
	}
	children, err := d.client.Children(ctx, d.base)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	names := []string{}
	for _, child := range children {
		if name, ok := d.codec.Service(child); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Instances returns a service's instances, of which there are none if the service does not exist. The view is at least
// as recent as the call. Because Instances leaves no watches behind, the view is never Current: the service may change
// at any time after AsOf. To follow the service, use [Discovery.Watch].
//
// Errors: an invalid service name, context.Cause(ctx), ErrClosed, or the server's error.
func (d *Discovery) Instances(ctx context.Context, service string) (View, error) {
	g, err := d.folder(service)
	if err != nil {
		return View{}, err
	}
	v, err := g.Members(ctx)
	if err != nil {
		return View{}, err
	}
	return (&decoder{codec: d.codec, service: service}).view(v), nil
}

// WatchOption configures [Discovery.Watch].
type WatchOption func(*watchConfig) error

type watchConfig struct{ follow []group.WatchOption }

// WithSettle debounces Watch: a change is reported once the service has been stable for the quiet duration, or once
// most has elapsed since the first unreported change. By default every change is reported immediately. WithSettle also
// saves reads; see [group.WithSettle].
func WithSettle(quiet, most time.Duration) WatchOption {
	return func(c *watchConfig) error {
		c.follow = append(c.follow, group.WithSettle(quiet, most))
		return nil
	}
}

// Watch yields a service's current instances, then a view after every change, including changes to their data. If the
// caller is slow, it gets the latest view, and intermediate ones are skipped. If the service does not exist, the view
// has no instances. If the connection is lost, no server answers, or a change takes long to read, Watch yields the last
// view again with Current set to false; see the package documentation.
//
// Iteration ends as described under "Conventions" in package [zkrecipes].
func (d *Discovery) Watch(ctx context.Context, service string, opts ...WatchOption) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		cfg := watchConfig{follow: []group.WatchOption{group.WithPayloads()}}
		if err := recipe.Apply(&cfg, opts); err != nil {
			yield(View{}, fmt.Errorf("discovery: %w", err))
			return
		}
		g, err := d.folder(service)
		if err != nil {
			yield(View{}, err)
			return
		}
		decoder := decoder{codec: d.codec, service: service}
		var told *View
		for v, err := range g.Watch(ctx, cfg.follow...) {
			if err != nil {
				yield(View{}, err)
				return
			}
			now := decoder.view(v)
			if told != nil && told.same(now) { // only a node that is not an instance has changed
				continue
			}
			told = &now
			shown := now
			shown.Entries = slices.Clone(now.Entries) // the caller may sort its copy
			if !yield(shown, nil) {
				return
			}
		}
	}
}
