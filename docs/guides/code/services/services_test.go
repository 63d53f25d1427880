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
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
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

// needAddress skips a test on a machine without a network, where instances have no address.
func needAddress(t *testing.T) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	if !slices.ContainsFunc(addresses, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.IsGlobalUnicast()
	}) {
		t.Skip("a machine without a network")
	}
}

// Two of three instances are drained one after the other while a caller continues, and every call is answered.
func TestOffer_DrainedWithoutAFailedCall(t *testing.T) {
	needAddress(t)
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

// pipes is a listener in memory, for virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func listen() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// ZooKeeper does not answer, and the session outlives the removal. Callers that still have the address get an answer
// to each call that the server has accepted.
func TestOffer_ZooKeeperDoesNotAnswer(t *testing.T) {
	needAddress(t)
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := bubble.Dial(t, srv, "a", conn.WithSessionTimeout(40*time.Second))
		l := listen()
		server := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(4 * time.Second) }),
		}
		defer func() { _ = server.Close() }() // if Offer has not stopped it
		go func() { _ = server.Serve(l) }()   // until Offer stops it
		ctx, end := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- Offer(ctx, client, server, 80) }()
		synctest.Wait()
		require.Len(t, srv.Children("/services/orders"), 1)

		srv.Stall(zktest.Everyone, zktest.Both)
		failed := make(chan error, 1)
		go func() {
			caller := &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
			for {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://orders/", nil)
				if err == nil {
					var answer *http.Response
					if answer, err = caller.Do(request); err == nil {
						err = answer.Body.Close()
					}
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
		end()
		require.NoError(t, <-over)
		require.ErrorIs(t, <-failed, net.ErrClosed)
	})
}

// An instance that is asked to stop before it could be registered stops its server, too.
func TestOffer_EndsBeforeItIsRegistered(t *testing.T) {
	needAddress(t)
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		client := bubble.Dial(t, srv, "a")
		srv.Stall(zktest.Everyone, zktest.Both)
		server, served := &http.Server{ReadHeaderTimeout: time.Minute}, make(chan error, 1)
		l := listen()
		go func() { served <- server.Serve(l) }()
		ctx, end := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- Offer(ctx, client, server, 80) }()
		synctest.Wait()
		end()
		require.ErrorIs(t, <-over, context.Canceled)
		synctest.Wait()
		select {
		case err := <-served:
			require.ErrorIs(t, err, http.ErrServerClosed)
		default:
			_ = server.Close()
			t.Fatal("the server goes on")
		}
	})
}

// A request that may change something is sent to one instance only, which may have served it before it failed.
func TestCaller_RepeatsOnlyReads(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		sent := 0
		caller := &Caller{Next: roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, io.ErrUnexpectedEOF
		})}
		caller.instances.Store(&[]discovery.Instance{{Address: "a", Port: 1}, {Address: "b", Port: 1}})
		request, err := http.NewRequestWithContext(t.Context(), method, "http://orders/", nil)
		require.NoError(t, err)
		_, err = caller.RoundTrip(request)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 1, sent, method)
	}
}

// A RoundTripper closes the body even if it sends nothing.
func TestCaller_ClosesTheBody(t *testing.T) {
	body := &closes{Reader: strings.NewReader("order")}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://orders/", body)
	require.NoError(t, err)
	_, err = new(Caller).RoundTrip(request)
	require.ErrorIs(t, err, errNone)
	require.True(t, body.closed)
}

type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error {
	c.closed = true
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

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
