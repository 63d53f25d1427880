package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/election"
	"github.com/zkrecipes/zkrecipes/zkhttp"
)

// serve answers HTTP requests on the address until stop is called: /readyz, /leader, and /self, which is for load
// balancers that send requests only to the leader.
func serve(
	ctx context.Context, address string, client *conn.Client, contest *election.Election,
) (at net.Addr, stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz", zkhttp.Health(client))
	mux.Handle("/leader", zkhttp.Leader(contest))
	mux.Handle("/self", zkhttp.Self(contest))
	server := &http.Server{ // without timeouts, idle connections could use up the descriptors that the client needs
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 15 * time.Second,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	return listener.Addr(), func() {
		_ = server.Close() // which also ends the requests in progress
		<-done
	}, nil
}
