package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// CheckAddress refuses what is not an address to listen at.
func CheckAddress(address string) error {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		if path == "" {
			return errors.New("no path of a socket")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// Listen serves at the addresses until ctx ends, or one of them fails. It replaces sockets that killed processes have left.
func (s *Site) Listen(ctx context.Context, addresses []string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, address := range addresses {
		network := "tcp"
		if path, is := strings.CutPrefix(address, "unix:"); is {
			network, address = "unix", path
			removeStale(ctx, path)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		if err != nil {
			fail(fmt.Errorf("--http: %w", err))
			break
		}
		serving.Go(func() { fail(s.serveAt(ctx, l)) })
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// removeStale removes a socket that refuses connections: the process has gone that made it, and nobody else could listen there.
func removeStale(ctx context.Context, path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // it was a question
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // Listen reports if that fails
	}
}

// serveAt serves at one address until ctx ends.
func (s *Site) serveAt(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.guests.answering(s.ours(l.Addr(), s.known(l.Addr(), s.mux))),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		WriteTimeout: 90 * time.Second, // to delete a contender takes a minute at most; a stream has separate limits
		ConnState:    s.guests.admit, ConnContext: withGuest, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // a scanner that speaks no TLS, and the like
		BaseContext: func(net.Listener) context.Context { return ctx },   // streams end with it
	}
	s.log.Info("listening", "address", l.Addr().String())
	if at, tcp := l.Addr().(*net.TCPAddr); tcp && s.tls != nil {
		l = tls.NewListener(l, s.tls)
	} else if tcp && s.login != nil && !at.IP.IsLoopback() {
		s.log.Warn("the token and the answers cross the network as they are: give --http-cert and --http-key", "address", at.String())
	}
	var stopping sync.WaitGroup
	defer stopping.Wait()
	stopped := context.AfterFunc(ctx, func() {
		defer stopping.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // what has not ended by now is cut
		}
	})
	stopping.Add(1)
	err := server.Serve(l)
	if stopped() { // the listener failed first
		stopping.Done()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// CheckHost refuses what cannot be the name in a request.
func CheckHost(name string) error {
	if name == "" || strings.ContainsAny(name, ":/ ") {
		return errors.New("want a name without a port")
	}
	return nil
}

// AllowHosts lets requests name these hosts. Listeners that are not at the loopback then answer no others, but addresses.
func (s *Site) AllowHosts(names []string) { s.hosts = names }

// ours makes a listener only answer requests for it by name. Otherwise a web page of another site could have its own
// name resolved to our address, and read the answers in the browser of an operator. A name that is an address is not
// resolved.
func (s *Site) ours(address net.Addr, next http.Handler) http.Handler {
	at, tcp := address.(*net.TCPAddr)
	if !tcp || !at.IP.IsLoopback() && len(s.hosts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		known := ip != nil && (ip.IsLoopback() || !at.IP.IsLoopback())
		if !known && !slices.ContainsFunc(slices.Concat(s.hosts, []string{"localhost"}), func(name string) bool { return strings.EqualFold(name, host) }) {
			Reply(w, http.StatusForbidden, Failure("Host "+r.Host+": want localhost, 127.0.0.1, or a name that --allow-host allows"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
