package services

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// offered is an instance of the service, in this process.
type offered struct {
	end  context.CancelFunc
	over chan error
}

func offer(t *testing.T, srv *zktest.Server, name string) *offered {
	t.Helper()
	client, err := conn.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // never fails
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name) // the caller sees an error
		}),
	}
	go func() { _ = server.Serve(l) }() // until Offer stops it
	ctx, cancel := context.WithCancel(t.Context())
	o := &offered{end: cancel, over: make(chan error, 1)}
	address, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	go func() { o.over <- Offer(ctx, client, server, address.Port) }()
	return o
}

// Two of three instances are drained one after the other while a caller continues, and every call is answered.
func TestOffer_DrainedWithoutAFailedCall(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	if !slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	}) {
		t.Skip("a machine without a network: instances have no address")
	}
	drain = 100 * time.Millisecond
	srv := zktest.Run(t)
	client, err := conn.Dial(t.Context(), srv.Addr())
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	d, err := discovery.New(client, "/services", discovery.WithCodec(discovery.Spring()))
	require.NoError(t, err)
	following, stop := context.WithCancel(t.Context())
	defer stop()
	caller := &Caller{Next: &http.Transport{DisableKeepAlives: true}}
	followed := make(chan error, 1)
	go func() { followed <- caller.Follow(following, d, "orders") }()

	var all []*offered
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, offer(t, srv, name))
	}
	seen := map[string]int{}
	call := func() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://orders/", nil)
		require.NoError(t, err)
		answer, err := caller.RoundTrip(request)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		seen[string(text)]++
	}
	require.Eventually(t, func() bool { return len(srv.Children("/services/orders")) == 3 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		now := caller.instances.Load()
		return now != nil && len(*now) == 3
	}, time.Minute, time.Millisecond)
	for len(seen) < 3 {
		call()
	}
	for _, o := range all[:2] {
		o.end()
		for ended := false; !ended; {
			select {
			case err := <-o.over:
				if !errors.Is(err, context.Canceled) { // it ended before Register returned
					require.NoError(t, err)
				}
				ended = true
			default:
				call()
			}
		}
	}
	clear(seen)
	for range 10 {
		call()
	}
	require.Equal(t, map[string]int{"c": 10}, seen)
	stop()
	require.NoError(t, <-followed)
	all[2].end()
	require.NoError(t, <-all[2].over)
}

// If one instance cannot be reached, another one answers. Without instances, the call fails.
func TestCaller_OneCannotBeReached(t *testing.T) {
	caller := &Caller{Next: reaches("up")}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://orders/", nil)
	require.NoError(t, err)
	_, err = caller.RoundTrip(request)
	require.ErrorIs(t, err, errNone)
	caller.instances.Store(&[]discovery.Instance{
		{Address: "down", Port: 1},
		{Address: "up", Port: 1},
		{Address: "down", Port: 2},
	})
	for range 20 {
		answer, err := caller.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	caller.instances.Store(&[]discovery.Instance{{Address: "down", Port: 1}, {Address: "down", Port: 2}})
	_, err = caller.RoundTrip(request)
	require.ErrorContains(t, err, "down:1")
	require.ErrorContains(t, err, "down:2")
}

// reaches is a transport that can reach only one host.
type reaches string

func (r reaches) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Hostname() != string(r) {
		return nil, &net.OpError{Op: "dial", Err: &net.AddrError{Err: "unreachable", Addr: request.URL.Host}}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}
