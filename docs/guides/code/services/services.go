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

// drain is how long an instance serves on when it is not listed any more: callers hear of it within a round trip, or not at all.
var drain = time.Second

// Offer lists a server that serves already as an instance, until ctx ends. Then it takes the instance out, and stops the server.
func Offer(ctx context.Context, client *conn.Client, server *http.Server, port int) error {
	d, err := discovery.New(client, "/services", discovery.WithCodec(discovery.Spring()))
	if err != nil {
		return err
	}
	r, err := d.Register(ctx, discovery.Instance{Service: "orders", Port: port, Metadata: map[string]string{"zone": "a"}})
	if err != nil {
		return err // zkrecipes.ErrTaken: another process has the id
	}
	<-ctx.Done()
	return stop(server, r, drain)
}

// stop takes the instance out, serves on for those who have not heard, and then ends the calls under way.
func stop(server *http.Server, r *discovery.Registration, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		slog.Warn("others see this instance until its session ends", "err", err)
	}
	time.Sleep(drain)
	return server.Shutdown(ctx)
}

// Caller is an http.RoundTripper that sends the requests for a service to its instances.
type Caller struct {
	Next      http.RoundTripper
	instances atomic.Pointer[[]discovery.Instance]
}

// Follow keeps the instances up to date until ctx ends. While the connection is lost, the last ones stay: most are still there.
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

// errNone says that there is nowhere to send a request.
var errNone = errors.New("the service has no instances")

// RoundTrip sends the request to one of the instances. A request without a body is sent to another one if the first cannot be reached.
func (c *Caller) RoundTrip(request *http.Request) (*http.Response, error) {
	all := c.instances.Load()
	if all == nil || len(*all) == 0 {
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
		if errs = append(errs, err); request.Body != nil || request.Context().Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
