package zkgrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// ServeOption configures [Serve].
type ServeOption func(*serving) error

// WithRegister adds options for the registration, such as discovery.WithWait.
func WithRegister(opts ...discovery.RegisterOption) ServeOption {
	return func(s *serving) error {
		s.register = append(s.register, opts...)
		return nil
	}
}

// WithRegistered makes Serve call f when the server is registered. The function may keep the registration in order to
// change the weight or to remove the server for a while. It must not block.
func WithRegistered(f func(*discovery.Registration)) ServeOption {
	return func(s *serving) error {
		if f == nil {
			return errors.New("WithRegistered: the function is nil")
		}
		s.registered = f
		return nil
	}
}

// WithRemoval sets how long Serve waits for the registration to be removed before the drain continues regardless, with
// the settle time; the default is 5 seconds.
func WithRemoval(most time.Duration) ServeOption {
	return func(s *serving) error {
		if most <= 0 {
			return fmt.Errorf("removal %v: want more than 0", most)
		}
		s.removal = most
		return nil
	}
}

// WithSettle sets how long the server continues to serve after its removal from ZooKeeper, so that clients can notice.
// It must be 0 or more; the default is 1 second.
func WithSettle(d time.Duration) ServeOption {
	return func(s *serving) error {
		if d < 0 {
			return fmt.Errorf("settle %v: want 0 or more", d)
		}
		s.settle = d
		return nil
	}
}

// WithGrace sets how long calls in progress may take after the settle time; the default is 20 seconds. Calls that
// take longer are cut off.
func WithGrace(d time.Duration) ServeOption {
	return func(s *serving) error {
		if d <= 0 {
			return fmt.Errorf("grace %v: want more than 0", d)
		}
		s.grace = d
		return nil
	}
}

// linger is how long Serve waits for handlers whose calls were cut off.
const linger = time.Second

type serving struct {
	server                 *grpc.Server
	register               []discovery.RegisterOption
	registered             func(*discovery.Registration)
	removal, settle, grace time.Duration
}

// Serve serves calls from the listener, and keeps the server registered as an instance. If the instance has no port, it
// gets the listener's. While ZooKeeper is unavailable, the server already serves, and Serve waits to register it.
//
// When ctx is done, Serve drains the server in this order: removal from ZooKeeper, the settle time, GracefulStop. By
// default that takes at most 27 seconds: 5, 1 and 20, then up to 1 for the handlers of calls that were cut off. Serve
// doesn't wait longer for a handler that ignores its context, even with grpc.WaitForHandlers. Give the process that
// much time to stop, and close its client after Serve returns.
//
// When Serve returns, the server is stopped and its listener closed, even on error. If the server fails or is stopped
// by another caller, Serve removes it from ZooKeeper at once. If that caller uses GracefulStop, calls in progress may
// take as long as they want until ctx is done.
//
// Serve returns nil if ctx is done, the server was removed from ZooKeeper, and no calls were cut off.
//
// Errors: an invalid option; those from discovery.Register, such as a *zkrecipes.TakenError; the server's own errors; a
// removal that took too long, which continues as long as the client lives; calls that were cut off.
func Serve(
	ctx context.Context, server *grpc.Server, listener net.Listener, d *discovery.Discovery, i discovery.Instance,
	opts ...ServeOption,
) error {
	s := &serving{
		server: server, registered: func(*discovery.Registration) {},
		removal: 5 * time.Second, settle: time.Second, grace: 20 * time.Second,
	}
	if err := s.check(ctx, listener, d, &i, opts); err != nil {
		if server != nil {
			server.Stop()
		}
		if listener != nil {
			_ = listener.Close() // which has accepted no call
		}
		return fmt.Errorf("zkgrpc: %w", err)
	}
	// The listener already accepts connections, so no client can connect too early.
	running, stopped := context.WithCancel(ctx)
	defer stopped()
	served := make(chan error, 1)
	go func() {
		defer stopped()
		served <- server.Serve(notifier{listener, stopped})
	}()
	r, err := d.Register(running, i, s.register...)
	if err == nil {
		s.registered(r)
		<-running.Done()
		err = s.unregister(ctx, r, served)
	} else if running.Err() != nil {
		err = nil // it was stopped before it was registered
	}
	if running.Err() != nil { // another caller may be stopping the server
		select {
		case <-ctx.Done():
		case failed := <-served:
			served <- failed
		}
	}
	ended, cutOff := s.stop(served)
	if ended == nil || errors.Is(ended, grpc.ErrServerStopped) {
		ended = nil
		if err == nil && ctx.Err() == nil { // something other than this function has stopped it
			ended = fmt.Errorf("zkgrpc: serve: %w", grpc.ErrServerStopped)
		}
	}
	return errors.Join(err, cutOff, ended)
}

// notifier calls closing when gRPC closes the listener, which is the first step of both Stop and GracefulStop.
type notifier struct {
	net.Listener
	closing func()
}

func (n notifier) Close() error {
	n.closing()
	return n.Listener.Close()
}

func (s *serving) check(
	ctx context.Context, listener net.Listener, d *discovery.Discovery, i *discovery.Instance, opts []ServeOption,
) error {
	errs := []error{recipe.Apply(s, opts)}
	if ctx == nil {
		errs = append(errs, errors.New("context is nil: want one such as context.Background()"))
	}
	if s.server == nil {
		errs = append(errs, errors.New("server is nil: create one with grpc.NewServer"))
	}
	if d == nil {
		errs = append(errs, errors.New("discovery is nil: create one with discovery.New"))
	}
	if listener == nil {
		return errors.Join(append(errs, errors.New("listener is nil: create one with net.Listen"))...)
	}
	if i.Port == 0 && i.TLSPort == 0 {
		at, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return errors.Join(append(errs,
				fmt.Errorf("instance has no port, and listener %v has none: set Port", listener.Addr()))...)
		}
		i.Port = at.Port
	}
	return errors.Join(errs...)
}

// unregister removes the server from ZooKeeper, and waits for the settle time, so that clients notice.
func (s *serving) unregister(ctx context.Context, r *discovery.Registration, served chan error) error {
	removal, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.removal,
		fmt.Errorf("zkgrpc: %s may be listed until the session ends: its removal took longer than %v", r.Path(), s.removal))
	defer cancel()
	err := r.Close(removal)
	select {
	case <-time.After(s.settle):
	case failed := <-served: // the server no longer serves
		served <- failed
	}
	return err
}

// stop ends the calls, and returns the error of the server's Serve.
func (s *serving) stop(served <-chan error) (ended, cutOff error) {
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		s.server.GracefulStop()
	}()
	select {
	case <-graceful:
		return <-served, nil
	case <-time.After(s.grace):
	}
	cutOff = fmt.Errorf("zkgrpc: calls were cut off: they had not finished after %v", s.grace)
	// Stop returns once the connections are closed, unless handlers are still running: it waits for them with
	// grpc.WaitForHandlers, and always if their connections are gone, because GracefulStop then waits with the lock
	// of the server held.
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.server.Stop()
	}()
	select {
	case <-stopped:
		return <-served, cutOff
	case <-time.After(linger):
	}
	select {
	case ended = <-served:
	default:
	}
	return ended, fmt.Errorf("%w, and a handler still runs", cutOff)
}
