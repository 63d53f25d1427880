// Package services offers a service over HTTP, and calls one whose instances come and go.
package services

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// drain is how long an instance keeps serving after it was removed: connected callers notice within a round trip.
var drain = time.Second

// Offer registers a running server as an instance until ctx is done. Then it removes the instance and stops the server.
func Offer(ctx context.Context, client *conn.Client, server *http.Server, port int) error {
	d, err := discovery.New(client, "/services", discovery.WithCodec(discovery.Spring()))
	if err != nil {
		return err
	}
	r, err := d.Register(ctx, discovery.Instance{Service: "orders", Port: port, Metadata: map[string]string{"zone": "a"}})
	if err != nil {
		return errors.Join(err, shutdown(server)) // zkrecipes.ErrTaken: another process has the id
	}
	<-ctx.Done()
	return stop(server, r, drain)
}

// stop removes the instance, keeps serving callers that have not noticed yet, and then shuts the server down. The
// removal has a time of its own, so that calls in progress have theirs even if ZooKeeper does not answer.
func stop(server *http.Server, r *discovery.Registration, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		slog.Warn("others see this instance until its session ends", "err", err)
	}
	time.Sleep(drain)
	return shutdown(server)
}

// shutdown gives the calls in progress time to end.
func shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// Caller is an http.RoundTripper that sends the requests for a service to its instances.
type Caller struct {
	Next      http.RoundTripper
	instances atomic.Pointer[[]discovery.Instance]
}

// Follow keeps the instances up to date until ctx is done. While the connection is lost, it keeps the last ones, most
// of which still exist.
func (c *Caller) Follow(ctx context.Context, d *discovery.Discovery, service string) error {
	for view, err := range d.Watch(ctx, service) {
		if err != nil {
			return err
		}
		if !view.Current {
			slog.Warn("the instances may have changed", "service", service, "since", view.AsOf)
		}
		now := view.Instances()
		c.instances.Store(&now)
	}
	return nil
}

// errNone is returned when there is no instance to send a request to.
var errNone = errors.New("the service has no instances")

// RoundTrip sends the request to one of the instances. If that fails and the request only reads, it tries the others.
func (c *Caller) RoundTrip(request *http.Request) (*http.Response, error) {
	all := c.instances.Load()
	if all == nil || len(*all) == 0 {
		if request.Body != nil {
			_ = request.Body.Close() // as every RoundTripper does; nothing was read
		}
		return nil, errNone
	}
	var errs []error
	for _, n := range rand.Perm(len(*all)) {
		out := request.Clone(request.Context())
		out.URL.Host = (*all)[n].HostPort()
		answer, err := c.Next.RoundTrip(out)
		if err == nil {
			return answer, nil
		}
		if errs = append(errs, err); !onlyReads(request) || request.Context().Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// onlyReads reports whether the request may be sent to another instance after the first may have served it.
func onlyReads(r *http.Request) bool {
	return (r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(r.Body == nil || r.Body == http.NoBody)
}
