package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// A fault is one occurrence of a kind. inject begins it and heal ends it; in between, during is called repeatedly.
type fault struct {
	prepare, inject, during, heal func() error
}

// fault prepares what a step needs.
func (r *run) fault(s Step, victims []*client) (f fault, err error) {
	servers := r.ensemble.Servers
	leader, err := r.ensemble.Leader()
	if err != nil {
		return f, err
	}
	followers := slices.DeleteFunc(slices.Clone(servers), func(x *zkserver.Server) bool { return x == leader })
	follower := followers[s.Server%len(followers)]
	switch s.Kind {
	case KillLeader:
		return fault{inject: leader.Kill, heal: leader.Restart}, nil
	case KillFollower:
		return fault{inject: follower.Kill, heal: follower.Restart}, nil
	case PauseLeader:
		return fault{inject: leader.Pause, heal: leader.Resume}, nil
	case PauseFollower:
		return fault{inject: follower.Pause, heal: follower.Resume}, nil
	case RollingRestart:
		return fault{inject: r.rollingRestart}, nil
	case OutageShort, OutageLong:
		return fault{inject: r.servers((*zkserver.Server).Kill), heal: r.servers((*zkserver.Server).Restart)}, nil
	case IsolateFollower:
		return r.isolation(follower, victims), nil
	case IsolateLeader:
		return r.isolation(leader, victims), nil
	default:
		return r.clientFault(s.Kind, victims), nil
	}
}

func (r *run) clientFault(kind Kind, victims []*client) fault {
	all := func(f func(*client) error) func() error { return func() error { return each(victims, f) } }
	stall := func(d proxy.Direction) fault {
		return fault{
			inject: all(func(c *client) error { return c.network(func(p *proxy.Proxy) { p.Stall(d) }) }),
			heal:   all(func(c *client) error { return c.network((*proxy.Proxy).Heal) }),
		}
	}
	switch kind {
	case PauseClient:
		return fault{inject: all((*client).pause), heal: all((*client).resume)}
	case KillClient:
		return fault{inject: all((*client).kill), heal: all((*client).start)}
	case Partition, Blink:
		return stall(proxy.Both)
	case RequestsLost:
		return stall(proxy.ToServer)
	case RepliesLost:
		return stall(proxy.ToClient)
	case Cut:
		return fault{during: r.everybody(func(p *proxy.Proxy) { p.Cut() })}
	case LoseAnswers:
		return fault{
			during: r.everybody(func(p *proxy.Proxy) {
				p.Trap(proxy.Match{Ops: proxy.Creates, Path: "/chaos"}, proxy.DropReply)
				p.Trap(proxy.Match{Ops: []int32{2}, Path: "/chaos"}, proxy.DropReply)
				p.Trap(proxy.Match{Ops: []int32{5, 14}}, proxy.DropReply)
			}),
			heal: func() error {
				return each(r.clients, func(c *client) error { return c.network(func(p *proxy.Proxy) { p.Disarm() }) })
			},
		}
	case DeleteHolders:
		return fault{inject: all(r.deleteNode)}
	case DeleteAll:
		return fault{during: func() error { return r.deleteBelow(Root) }}
	case Reap:
		return fault{
			inject: func() error { return each(r.clients, func(c *client) error { return c.order("rest") }) },
			during: nil,
			heal:   r.awaitReaping,
		}
	default:
		return fault{inject: func() error { return fmt.Errorf("unknown fault %q", kind) }}
	}
}

func each(cs []*client, f func(*client) error) error {
	var errs []error
	for _, c := range cs {
		if err := f(c); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.id, err))
		}
	}
	return errors.Join(errs...)
}

func (c *client) network(f func(*proxy.Proxy)) error {
	for _, p := range c.proxies {
		f(p)
	}
	return nil
}

// everybody returns a function that applies f to every network path, eight times in a session timeout.
func (r *run) everybody(f func(*proxy.Proxy)) func() error {
	last := time.Time{}
	return func() error {
		if time.Since(last) < r.Session/8 {
			return nil
		}
		last = time.Now()
		return each(r.clients, func(c *client) error { return c.network(f) })
	}
}

func (r *run) isolation(s *zkserver.Server, victims []*client) fault {
	at := slices.Index(r.ensemble.Servers, s)
	return fault{
		prepare: func() error { return each(victims, func(c *client) error { return c.attach(at) }) },
		inject:  func() error { return r.ensemble.Isolate(s) },
		heal: func() error {
			return errors.Join(r.ensemble.Rejoin(), each(victims, (*client).detach))
		},
	}
}

func (r *run) rollingRestart() error {
	for _, s := range r.ensemble.Servers {
		if err := s.Restart(); err != nil {
			return err
		}
		if _, err := r.ensemble.Leader(); err != nil {
			return err
		}
	}
	return nil
}

// servers returns a function that applies f to all servers at once, so that none of them serves alone.
func (r *run) servers(f func(*zkserver.Server) error) func() error {
	return func() error {
		errs := make([]error, len(r.ensemble.Servers))
		var wg sync.WaitGroup
		for i, s := range r.ensemble.Servers {
			wg.Go(func() { errs[i] = f(s) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

// deleteNode deletes the client's contender.
func (r *run) deleteNode(c *client) error {
	op, _ := r.history.last(c.id)
	return r.delete(op.answer.Path)
}

func (r *run) delete(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.history.deleting(path)
	err := r.operator.Delete(ctx, path, -1)
	for errors.Is(err, zkrecipes.ErrUnknownOutcome) {
		err = r.operator.Delete(ctx, path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// deleteBelow deletes everything below a node.
func (r *run) deleteBelow(path string) error {
	paths, err := r.tree(path)
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(paths) {
		if err := r.delete(path); err != nil {
			return err
		}
	}
	return nil
}

// tree lists everything below a node, parents before children.
func (r *run) tree(root string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	names, err := r.operator.Children(ctx, root)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		path := strings.TrimSuffix(root, "/") + "/" + name
		below, err := r.tree(path)
		if err != nil {
			return nil, err
		}
		paths = append(append(paths, path), below...)
	}
	return paths, nil
}

// awaitReaping waits until the server has removed the empty containers, then lets all clients continue.
func (r *run) awaitReaping() error {
	var left []string
	err := poll(patience, "the server removes the empty containers while all clients rest", func() bool {
		err := r.clear()
		if err == nil {
			left, err = r.tree(Root)
		}
		return err == nil && len(left) == 0
	})
	if err != nil {
		err = fmt.Errorf("%w: left are %v", err, left)
	}
	return errors.Join(err, each(r.clients, func(c *client) error { return c.order("work") }))
}
