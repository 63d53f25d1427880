package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/chaos"
	"github.com/zkrecipes/zkrecipes/integration/kit/proxy"
	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
)

// Kinds are the faults that a run can have. Those that hit clients hit the sessions behind proxies.
var Kinds = []chaos.Kind{
	chaos.KillLeader, chaos.KillFollower, chaos.PauseLeader, chaos.PauseFollower, chaos.OutageShort, chaos.Partition,
	chaos.RequestsLost,
	chaos.RepliesLost, chaos.Blink, chaos.Cut,
}

// faults injects one fault after another until ctx ends.
func (r *run) faults(ctx context.Context) error {
	for step := range chaos.Schedule(r.Seed, r.Kinds, r.Session) {
		if wait(ctx, r.Peace); ctx.Err() != nil {
			return nil
		}
		if err := r.fault(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.Kind, err)
		}
		r.ledger.count(func(t *Tally) { t.Faults++ })
	}
	return nil
}

func (r *run) fault(ctx context.Context, step chaos.Step) error {
	leader, err := r.ensemble.Leader()
	if err != nil {
		return err
	}
	followers := slices.DeleteFunc(slices.Clone(r.ensemble.Servers), func(s *zkserver.Server) bool { return s == leader })
	follower := followers[step.Server%len(followers)]
	during := func(inject, heal func() error) error {
		if err := inject(); err != nil {
			return err
		}
		wait(ctx, step.Lasts)
		return errors.Join(heal(), r.ensemble.WaitReady())
	}
	stall := func(d proxy.Direction) error {
		r.network(func(p *proxy.Proxy) { p.Stall(d) })
		wait(ctx, step.Lasts)
		r.network((*proxy.Proxy).Heal)
		return nil
	}
	switch step.Kind {
	case chaos.KillLeader:
		return during(leader.Kill, leader.Restart)
	case chaos.KillFollower:
		return during(follower.Kill, follower.Restart)
	case chaos.PauseLeader:
		return during(leader.Pause, leader.Resume)
	case chaos.PauseFollower:
		return during(follower.Pause, follower.Resume)
	case chaos.OutageShort:
		return r.outage()
	case chaos.RequestsLost:
		return stall(proxy.ToServer)
	case chaos.RepliesLost:
		return stall(proxy.ToClient)
	case chaos.Partition, chaos.Blink:
		return stall(proxy.Both)
	case chaos.Cut:
		for end := time.Now().Add(step.Lasts); time.Now().Before(end) && ctx.Err() == nil; wait(ctx, r.Session/8) {
			r.network((*proxy.Proxy).Cut)
		}
	default:
		return errors.New("this kind of fault is not for soak runs")
	}
	return nil
}

// outage kills all servers, and starts them again.
func (r *run) outage() error {
	for _, s := range r.ensemble.Servers {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	failed := make(chan error)
	for _, s := range r.ensemble.Servers {
		go func() { failed <- s.Restart() }()
	}
	var err error
	for range r.ensemble.Servers {
		err = errors.Join(err, <-failed)
	}
	return errors.Join(err, r.ensemble.WaitReady())
}

func (r *run) network(f func(*proxy.Proxy)) {
	for _, p := range r.proxies {
		f(p)
	}
}
