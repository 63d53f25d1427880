package discovery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
)

// Registration is one instance that this process keeps registered. It is safe for concurrent use.
type Registration struct {
	discovery *Discovery
	options   []group.JoinOption
	closing   context.Context // ends when Close is called
	close     context.CancelFunc
	updating  chan struct{} // has room for one, which is taken during an Update

	mu       sync.Mutex
	instance Instance
	node     string
	member   *group.Membership
	before   []*group.Membership // what Updates have replaced and whose removal may still be running
	vain     []string            // the paths of nodes that Updates gave up: likewise
}

// RegisterOption configures [Discovery.Register].
type RegisterOption func(*registering) error

type registering struct{ options []group.JoinOption }

// WithWait makes Register wait while the ID is taken, until ctx is done; by default Register fails. This lets a
// restarted process get its ID back once its predecessor's session expires.
func WithWait() RegisterOption {
	return func(c *registering) error {
		c.options = append(c.options, group.WithWait())
		return nil
	}
}

// WithReplace lets Register take over an ID that another session holds; by default Register fails. If the replace
// function, which receives the data and the Stat of that session's node, returns true, the node is deleted in the same
// transaction that creates the new one. The function is called on one of the client's goroutines and must not block.
func WithReplace(replace func(data []byte, stat zk.Stat) bool) RegisterOption {
	return func(c *registering) error {
		c.options = append(c.options, group.WithReplace(replace))
		return nil
	}
}

// Register adds an instance to its service and blocks until the instance's node exists. To limit how long Register
// waits, pass a context with a deadline. The deadline does not limit how long the instance stays registered: as in
// package node, its node is kept until [Registration.Close], and a reconnect writes nothing.
//
// If Register fails, the instance does not stay registered: if its node was created, it is deleted in the background.
//
// Errors: a *zkrecipes.TakenError, which names the owner, if another session has the ID; an instance that the format
// cannot represent; an open Registration with the same ID on the same client; context.Cause(ctx), along with what the
// call was waiting for; the server's error; ErrClosed.
//
// Source: Curator's ServiceDiscovery.registerService, which takes over another process's node.
func (d *Discovery) Register(ctx context.Context, i Instance, opts ...RegisterOption) (*Registration, error) {
	var cfg registering
	if err := recipe.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	i, n, err := d.encode(i)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	r := &Registration{discovery: d, options: cfg.options, updating: make(chan struct{}, 1)}
	if r.member, err = r.join(ctx, i.Service, n); err != nil {
		return nil, err
	}
	r.closing, r.close = context.WithCancel(context.WithoutCancel(ctx))
	r.instance, r.node = i, n.Name
	return r, nil
}

// encode returns the node of an instance, and the instance as others will read it. The latter has no payload if its
// metadata contains the same, so that a caller can change it.
func (d *Discovery) encode(i Instance) (Instance, Node, error) {
	if t := cmp.Or(i.Type, Dynamic); t != Dynamic {
		return i, Node{}, fmt.Errorf("type %q: want %q, since the node is ephemeral", t, Dynamic)
	}
	if i.Address = cmp.Or(i.Address, localAddress()); i.Address == "" {
		return i, Node{}, errors.New(
			"the instance has no address, and this machine has none that others can reach: set Address")
	}
	if i.Registered.IsZero() {
		i.Registered = time.Now()
	}
	n, err := d.codec.Encode(i)
	if err != nil {
		return i, Node{}, err
	}
	got, err := d.codec.Decode(i.Service, n)
	switch {
	case err != nil:
		return i, Node{}, err
	case got.Disabled != i.Disabled:
		return i, Node{}, fmt.Errorf("disabled %v: the payload has another value: set it to nil", i.Disabled)
	}
	bare := got
	bare.Payload = nil
	if same, err := d.codec.Encode(bare); err == nil && same.Name == n.Name && bytes.Equal(same.Data, n.Data) {
		return bare, n, nil
	}
	return got, n, nil
}

// join creates a node.
func (r *Registration) join(ctx context.Context, service string, n Node) (*group.Membership, error) {
	g, err := r.discovery.folder(service)
	if err != nil {
		return nil, err
	}
	return g.Join(ctx, n.Name, n.Data, r.options...)
}

// Instance returns the instance as others read it. You may modify it and pass it to Update. If its payload consists
// only of its metadata, Payload is nil.
func (r *Registration) Instance() Instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.instance
	i.Metadata, i.URI, i.Payload = maps.Clone(i.Metadata), slices.Clone(i.URI), bytes.Clone(i.Payload)
	return i
}

func (r *Registration) now() *group.Membership {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.member
}

// Path returns the path of the instance's node.
func (r *Registration) Path() string { return r.now().Path() }

// State returns what is currently known about the node, without contacting the servers.
func (r *Registration) State() node.State { return r.now().State() }

// Watch yields the node's current state, then every change. If the caller is slow, it gets the latest state, and
// intermediate states are skipped.
//
// Iteration ends as described under "Conventions" in package [zkrecipes], and with ErrClosed when the registration
// ends.
func (r *Registration) Watch(ctx context.Context) iter.Seq2[node.State, error] {
	return func(yield func(node.State, error) bool) {
		for {
			member := r.now()
			for state, err := range member.Watch(ctx) {
				if member != r.now() {
					break // Update has created another node
				}
				if !yield(state, err) {
					return
				}
			}
			if member == r.now() {
				return
			}
		}
	}
}

// Update replaces the instance and blocks until the server has the new one. If ID, Address or Registered is empty, it
// keeps its old value. The service and the ID cannot change.
//
// If the format stores the data in the node's name, as Dubbo's does, Update creates the new node before it deletes the
// old one, so both exist for a moment.
//
// If Update fails, [Registration.Instance] shows which instance the registration keeps: either the old one, or the new
// one, which will then be written as soon as possible.
//
// Errors: a different service or ID; an instance that the format cannot represent; context.Cause(ctx), along with what
// the call was waiting for; the server's error; ErrClosed.
func (r *Registration) Update(ctx context.Context, i Instance) error {
	if ctx == nil {
		return fmt.Errorf("discovery: update: %w", session.ErrNoContext)
	}
	now := r.Instance()
	i.ID, i.Address, i.Service = cmp.Or(i.ID, now.ID), cmp.Or(i.Address, now.Address), cmp.Or(i.Service, now.Service)
	if i.Registered.IsZero() {
		i.Registered = now.Registered
	}
	i, n, err := r.discovery.encode(i)
	switch {
	case err != nil:
		return fmt.Errorf("discovery: %w", err)
	case i.Service != now.Service || i.ID != now.ID:
		return fmt.Errorf("discovery: update of %s/%s to %s/%s: service and id cannot change: "+
			"close the registration and register again",
			now.Service, now.ID, i.Service, i.ID)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.closing, func() { cancel(r.closed()) })()
	select {
	case r.updating <- struct{}{}:
		defer func() { <-r.updating }()
	case <-ctx.Done():
		return session.CauseOf(ctx)
	}
	// The select may have chosen the turn although the context has ended too, and after Close, the function above may
	// not have run yet.
	switch {
	case r.closing.Err() != nil:
		return r.closed()
	case ctx.Err() != nil:
		return session.CauseOf(ctx)
	}
	return r.replace(ctx, i, n)
}

func (r *Registration) closed() error {
	return fmt.Errorf("discovery: %s: %w", r.Path(), recipe.Closed("registration"))
}

// replace is called by one goroutine at a time.
func (r *Registration) replace(ctx context.Context, i Instance, n Node) error {
	r.mu.Lock()
	member := r.member
	sameNode := r.node == n.Name
	r.mu.Unlock()
	if sameNode {
		if err := (*client.Client)(r.discovery.client).CheckCreate(member.Path(), n.Data, 1, member.Path()); err != nil {
			return err // Set would return the same error, but drop the data
		}
		r.put(i, n, member)
		return member.Set(ctx, n.Data)
	}
	now, err := r.join(ctx, i.Service, n)
	if err != nil {
		r.leftBehind(path.Join(path.Dir(member.Path()), n.Name))
		return err
	}
	r.put(i, n, now)
	if r.closing.Err() != nil { // Close may have seen only the old node
		return errors.Join(now.Close(ctx), member.Close(ctx))
	}
	return member.Close(ctx)
}

// leftBehind records the path of a node that an Update gave up, and forgets those whose removal is over.
func (r *Registration) leftBehind(left string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := (*client.Client)(r.discovery.client)
	r.vain = slices.DeleteFunc(r.vain, func(path string) bool { return path == left || !client.IsLeaving(path) })
	r.vain = append(r.vain, left)
}

// put records the instance, and what it replaces if its node is another one. It forgets what was replaced before and
// has been removed.
func (r *Registration) put(i Instance, n Node, member *group.Membership) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if member != r.member {
		client := (*client.Client)(r.discovery.client)
		r.before = slices.DeleteFunc(r.before, func(m *group.Membership) bool { return !client.IsLeaving(m.Path()) })
		r.before = append(r.before, r.member)
	}
	r.instance, r.node, r.member = i, n.Name, member
}

// Close removes the instance from its service: it deletes the node if it is the registration's own, and blocks until
// the node is gone or its session is over. It is idempotent. When your program shuts down, close the registration
// first, and then keep serving calls in progress, as well as new ones from callers that have not noticed yet.
//
// Errors: context.Cause(ctx), or an error if the server does not permit the removal. In either case, the removal
// continues in the background.
func (r *Registration) Close(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("discovery: close: %w", session.ErrNoContext)
	}
	r.close()
	select {
	case r.updating <- struct{}{}: // an Update has ended
		defer func() { <-r.updating }()
	case <-ctx.Done(): // it is about to end, and removes what it has created
	}
	r.mu.Lock()
	members, vain := append([]*group.Membership{r.member}, r.before...), slices.Clone(r.vain)
	r.mu.Unlock()
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Close(ctx))
	}
	for _, left := range vain {
		errs = append(errs, (*client.Client)(r.discovery.client).AwaitRelease(ctx, left))
	}
	return errors.Join(errs...)
}
