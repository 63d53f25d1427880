package zkgrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipe"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// Scheme is the scheme of targets, as in zk:///orders.
const Scheme = "zk"

const (
	// patience is how long a channel waits for its first addresses before its calls fail with the reason.
	patience = 5 * time.Second
	// question bounds the query for that reason.
	question = time.Second
	// leastPause and mostPause bound the pause after an error that ended the watch. After leastPause, ResolveNow ends it.
	leastPause = time.Second
	mostPause  = 30 * time.Second
)

// Option configures [NewResolver].
type Option func(*builder) error

// WithLogger sets where resolvers log; the default is [slog.Default].
func WithLogger(log *slog.Logger) Option {
	return func(b *builder) error {
		if log == nil {
			return errors.New("WithLogger: the logger is nil")
		}
		b.log = log
		return nil
	}
}

// WithTLSPort makes channels use each instance's TLS port, and skip instances without one. By default they use the
// other port, and the TLS port only if it is the only one.
func WithTLSPort() Option {
	return func(b *builder) error {
		b.tls = true
		return nil
	}
}

// NewResolver returns a builder for grpc.WithResolvers. It resolves targets such as zk:///orders to the instances of
// the service orders. The target has no host, because the ensemble and the path are those of d. A builder can serve any
// number of channels.
//
// While d's client is disconnected, channels keep their addresses, and this is logged. If a channel gets no view within
// 5 seconds of starting, calls that don't wait for ready fail with the reason, up to 1 second later. When the client is
// closed, the channels keep their addresses for good.
//
// Errors: a nil discovery; an invalid option. An invalid target is an error from grpc.NewClient, or from its first
// call.
func NewResolver(d *discovery.Discovery, opts ...Option) (resolver.Builder, error) {
	b := &builder{discovery: d, log: slog.Default()}
	errs := []error{recipe.Apply(b, opts)}
	if d == nil {
		errs = append(errs, errors.New("discovery is nil: create one with discovery.New"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("zkgrpc: %w", err)
	}
	return b, nil
}

type builder struct {
	discovery *discovery.Discovery
	log       *slog.Logger
	tls       bool
}

// Scheme implements resolver.Builder.
func (b *builder) Scheme() string { return Scheme }

// Build implements resolver.Builder. gRPC calls it when a channel is used for the first time, and again when an idle
// channel is used.
func (b *builder) Build(
	target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions,
) (resolver.Resolver, error) {
	service := target.Endpoint()
	if target.URL.Host != "" || service == "" {
		return nil, fmt.Errorf("zkgrpc: target %q: want %s:///service, since the servers are those of the client",
			target.URL.String(), Scheme)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // gRPC has none; Close ends this one
	f := &follower{
		builder: b, service: service, cc: cc, cancel: cancel,
		log:   b.log.With("service", service, "base", b.discovery.Base()),
		again: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go f.run(ctx)
	return f, nil
}

// follower is the resolver of one channel. It has a goroutine, to which the fields at the end belong.
type follower struct {
	*builder
	service string
	cc      resolver.ClientConn
	log     *slog.Logger
	again   chan struct{} // holds one value if gRPC has asked to resolve again
	cancel  context.CancelFunc
	done    chan struct{}

	told     []endpoint        // what the channel has; nil if it was given no view since an error
	outdated time.Time         // when an outage was logged; zero if there is none
	failed   bool              // an error has ended the watch since the last view
	skipped  map[string]string // why a node of the last view is not used, by path
}

// endpoint is an instance that the channel may call.
type endpoint struct {
	address  string
	instance discovery.Instance
}

// ResolveNow is called by gRPC when a connection fails. There is nothing to resolve, because the watch reports every
// change. If the watch ended with an error, ResolveNow starts the next one.
func (f *follower) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case f.again <- struct{}{}:
	default:
	}
}

// Close returns when the goroutine ends, after which the channel receives no update.
func (f *follower) Close() {
	f.cancel()
	<-f.done
}

// run follows the service until Close, or until the client is closed.
func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if err == nil { // no view has come in time
			if err = f.ask(ctx); err != nil && ctx.Err() == nil {
				f.lose("addresses", len(f.told), "error", err)
				f.report(err)
			}
			continue
		}
		over := errors.Is(err, zkrecipes.ErrClosed)
		if !f.failed || over {
			f.failed = true
			f.log.Warn("zkgrpc: cannot follow a service, the channel keeps its addresses",
				"error", err, "addresses", len(f.told))
		}
		f.report(err)
		if over {
			return
		}
		f.rest(ctx)
	}
}

// follow passes each view to the channel. It returns nil if there was none in time, or if ctx has ended.
func (f *follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	impatient := time.AfterFunc(patience, cancel)
	defer impatient.Stop()
	for view, err := range f.discovery.Watch(ctx, f.service) {
		impatient.Stop()
		if err != nil {
			return err
		}
		f.tell(view)
	}
	return nil
}

// ask returns the reason why there are no views.
func (f *follower) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, question)
	defer cancel()
	_, err := f.discovery.Instances(ctx, f.service)
	return err
}

// report reports to the channel why it gets no views. gRPC keeps the addresses that it has.
func (f *follower) report(err error) {
	if len(f.told) == 0 {
		f.told = nil // the next view must be passed on, because calls fail with this error until then
	}
	f.cc.ReportError(fmt.Errorf("zkgrpc: follow service %s below %s: %w", f.service, f.discovery.Base(), err))
}

// rest pauses before the next watch.
func (f *follower) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(leastPause):
	}
	select {
	case <-ctx.Done():
	case <-f.again:
	case <-time.After(mostPause - leastPause):
	}
}

// lose logs the start of an outage.
func (f *follower) lose(about ...any) {
	if f.outdated.IsZero() {
		f.outdated = time.Now()
		f.log.Warn("zkgrpc: no answer from zookeeper, the channel keeps its addresses", about...)
	}
}

// tell passes the addresses of a view to the channel if they have changed.
func (f *follower) tell(view discovery.View) {
	f.failed = false
	endpoints := f.endpoints(view)
	switch {
	case !view.Current:
		f.lose("addresses", len(endpoints), "asOf", view.AsOf)
	case !f.outdated.IsZero():
		f.log.Info("zkgrpc: zookeeper answers again",
			"addresses", len(endpoints), "lasted", time.Since(f.outdated).Round(time.Millisecond))
		f.outdated = time.Time{}
	}
	if f.told != nil && slices.EqualFunc(f.told, endpoints, endpoint.equal) {
		return
	}
	hadNone := len(f.told) == 0
	f.told = endpoints
	if len(endpoints) == 0 {
		f.log.Warn("zkgrpc: service has no instance that can be called", "nodes", len(view.Entries))
		if hadNone { // an error is more informative to callers than an empty list
			f.cc.ReportError(fmt.Errorf("zkgrpc: service %s below %s has no instance that can be called",
				f.service, f.discovery.Base()))
			return
		}
	}
	_ = f.cc.UpdateState(stateOf(endpoints)) // an error requests another state, which the watch will provide
}

// endpoints returns the instances that may be called, the oldest first. Of two instances with the same address it
// returns the newer, because the other has most likely crashed and its session has not expired yet.
func (f *follower) endpoints(view discovery.View) []endpoint {
	endpoints := make([]endpoint, 0, len(view.Entries))
	taken, skipped := map[string]bool{}, map[string]string{}
	for _, e := range slices.Backward(view.Entries) {
		address, err := f.address(e)
		switch {
		case err != nil:
			skipped[e.Path] = err.Error()
			if f.skipped[e.Path] != err.Error() {
				f.log.Warn("zkgrpc: skipping an instance", "path", e.Path, "error", err)
			}
		case taken[address]:
		default:
			taken[address] = true
			if !e.Disabled {
				endpoints = append(endpoints, endpoint{address, e.Instance})
			}
		}
	}
	f.skipped = skipped
	slices.Reverse(endpoints)
	return endpoints
}

func (f *follower) address(e discovery.Entry) (string, error) {
	switch {
	case e.Err != nil:
		return "", e.Err
	case f.tls && e.TLSPort == 0:
		return "", errors.New("it has no TLS port")
	case f.tls:
		return net.JoinHostPort(e.Address, strconv.Itoa(e.TLSPort)), nil
	case e.Port == 0 && e.TLSPort == 0:
		return "", errors.New("it has no port")
	}
	return e.HostPort(), nil
}

func (e endpoint) equal(other endpoint) bool { return reflect.DeepEqual(e, other) }

// stateOf returns the addresses in both forms that balancers read.
func stateOf(endpoints []endpoint) resolver.State {
	s := resolver.State{
		Endpoints: make([]resolver.Endpoint, len(endpoints)),
		Addresses: make([]resolver.Address, len(endpoints)),
	}
	for n, e := range endpoints {
		about := attributes.New(instanceKey{}, instance{e.instance})
		s.Endpoints[n] = resolver.Endpoint{Addresses: []resolver.Address{{Addr: e.address}}, Attributes: about}
		s.Addresses[n] = resolver.Address{Addr: e.address, BalancerAttributes: about} //nolint:staticcheck // for package base
	}
	return s
}
